"""The declarations say what a C compiler makes of the installed headers."""

import os
import re
import subprocess

from kvtier._abi import CODES, ffi, library

STRUCTS = ["kvt_error", "kvt_location", "kvt_publisher_options", "kvt_publisher_block", "kvt_publisher_stats",
           "kvt_block_id", "kvt_handle", "kvt_unique", "kvt_shared", "kvt_weak", "kvt_block_info",
           "kvt_pool_options", "kvt_pool_usage", "kvt_attach_options", "kvt_attach_stats", "kvt_geometry",
           "kvt_layout_info", "kvt_memory", "kvt_view",
           "kvt_device_info", "kvt_memory_options", "kvt_disk_options", "kvt_storage_info", "kvt_storage_name",
           "kvt_transfer_options", "kvt_copy", "kvt_copy_request", "kvt_transfer_stats", "kvt_relay",
           "kvt_pipeline_request", "kvt_volume_item", "kvt_volume_options", "kvt_volume_driver",
           "kvt_volume_request", "kvt_volume_stats", "kvt_volume_storage_options", "kvt_peer_options"]


def test_sizes_and_offsets(tmp_path):
    lines, expected = [], []
    for name in STRUCTS:
        lines.append(f'printf("%zu\\n", sizeof(struct {name}));')
        expected.append(ffi.sizeof(f"struct {name}"))
        for member, field in ffi.typeof(f"struct {name}").fields:
            lines.append(f'printf("%zu\\n", offsetof(struct {name}, {member}));')
            expected.append(field.offset)
    source = tmp_path / "sizes.c"
    source.write_text("#include <stddef.h>\n#include <stdio.h>\n#include <kvtier/attach.h>\n"
                      "#include <kvtier/kvbm.h>\n"
                      "#include <kvtier/publisher.h>\n#include <kvtier/transfer.h>\n"
                      "#include <kvtier/volume.h>\nint main(void) {" + "\n".join(lines) + "}\n")
    subprocess.run([os.environ.get("CC", "cc"), f"-I{os.environ['KVTIER_INCLUDE_DIR']}", str(source), "-o",
                    str(tmp_path / "sizes")], check=True)
    said = subprocess.run([str(tmp_path / "sizes")], check=True, stdout=subprocess.PIPE, text=True).stdout.split()
    assert [int(number) for number in said] == expected


def test_codes():
    lib = library("kvbm")
    assert [ffi.string(lib.kvt_err_name(at)).decode() for at in range(len(CODES))] == list(CODES)


def test_headers_have_every_function():
    """And each with as many arguments as are declared here; their types are not compared."""
    import kvtier._abi as abi
    with open(abi.__file__, encoding="utf-8") as file:
        declared = re.findall(r"\b(kvt_[a-z_]+)\(([^()]*)\);", file.read())
    text = ""
    for name in ("attach.h", "error.h", "kvbm.h", "layout.h", "publisher.h", "storage.h", "ticket.h", "token.h",
                 "transfer.h", "volume.h"):
        with open(os.path.join(os.environ["KVTIER_INCLUDE_DIR"], "kvtier", name), encoding="utf-8") as file:
            text += file.read()
    heads = {name: len(arguments.split(","))
             for name, arguments in re.findall(r"\b(kvt_[a-z_]+)\(([^()]*)\);", text)}
    assert len(declared) > 75
    for name, arguments in declared:
        assert heads.get(name) == len(arguments.split(",")), name
