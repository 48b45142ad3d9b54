/*
 * What the thread sanitizer is told of libraries that were not built for it: they hand memory
 * between threads in ways that it cannot see, and what they do within themselves is not for us to
 * judge.  libucm also looks on when a thread's stack is given back, after the sanitizer has taken
 * leave of that thread; and a library that unlocks as the last thing it does at exit looks as if
 * the loader did.  A program has one such list, so this is part of every program that the engine
 * is.
 */
const char *__tsan_default_suppressions(void);

const char *
__tsan_default_suppressions(void)
{
    return "called_from_lib:libucm.so\n"
           "called_from_lib:libucp.so\n"
           "called_from_lib:libucs.so\n"
           "called_from_lib:libuct.so\n"
           "called_from_lib:libzmq.so\n"
           "mutex:_dl_call_fini\n"
           "race:libzmq.so\n";
}
