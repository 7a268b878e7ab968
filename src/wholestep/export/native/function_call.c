/* @NAME@_call.c: the memory of @NAME@, and the call that copies arrays in and out. Needs nothing but a C99 compiler. */
#include "@NAME@.h"

#include <string.h>

@RUNS@

@NAME@_block *@NAME@_init(void *memory) {
    return (void *)((unsigned char *)memory + (64 - (uintptr_t)memory % 64) % 64);
}

int @NAME@_run(@NAME@_block *m) {
    return (int)@NAME@_run_run(m);
}

@CALL@ {
    unsigned char *m = (unsigned char *)@NAME@_init(memory);
@COPIED@
}

@FAILURE@
