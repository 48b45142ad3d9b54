# Kernels are compiled where nvcc is found and embedded as a fatbin; without it copies are made by the
# driver alone.  Code for the architectures of the last ten years, and PTX for what comes.
function(kvbm_embed_kernels target)
  find_program(KVBM_NVCC nvcc HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
  if(NOT KVBM_NVCC)
    return()
  endif()
  set(folder ${CMAKE_CURRENT_FUNCTION_LIST_DIR})
  get_filename_component(root ${folder}/../.. ABSOLUTE)
  set(fatbin ${CMAKE_CURRENT_BINARY_DIR}/kvbm_kernels.fatbin)
  add_custom_command(OUTPUT ${fatbin}
    COMMAND ${KVBM_NVCC} -fatbin -O3 -I${root} -arch=all-major -o ${fatbin} ${folder}/copy_kernel.cu
    DEPENDS ${folder}/copy_kernel.cu ${folder}/copy_kernel.h
    COMMENT "Compiling kernels" VERBATIM)
  set_property(SOURCE ${folder}/copy_kernel.c PROPERTY COMPILE_DEFINITIONS KVBM_CUDA_FATBIN="${fatbin}")
  set_property(SOURCE ${folder}/copy_kernel.c PROPERTY OBJECT_DEPENDS ${fatbin})
endfunction()
