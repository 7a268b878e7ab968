/* The driver's library of CUDA, as far as its bindings are asked for it: memory is the host's, a module is the path of a
   shared library with its kernels, and a graph is a list of what was captured. Arguments that make no sense are errors. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_IMAGE = 200, INVALID_CONTEXT, INVALID_HANDLE = 400,
       NOT_FOUND = 500, LAUNCH_FAILED = 719, CAPTURE_UNSUPPORTED = 900 };
enum { MAJOR = 75, MINOR = 76, RELAXED = 2, NON_BLOCKING = 1, MOST_SHARED = 8 };

typedef struct { int (*run)(void **, unsigned, unsigned, int); int count; unsigned shared; } Function;
typedef struct { Function *function; unsigned groups, threads; void **given; void *to; const void *from; size_t n; } Work;
typedef struct { Work *work; int count; } Graph;

static Graph *capturing;
static void *current;
static int context, stream, launched, destroyed;

int tests_graphs_launched(void) { return launched; }
int tests_graphs_destroyed(void) { return destroyed; }

int cuInit(unsigned flags) { return flags ? INVALID_VALUE : SUCCESS; }
int cuDriverGetVersion(int *version) { *version = 13000; return SUCCESS; }
int cuDeviceGetCount(int *count) { *count = 1; return SUCCESS; }
int cuDeviceGet(int *device, int number) { *device = number; return SUCCESS; }
int cuDeviceGetName(char *name, int length, int device) { snprintf(name, length, "libcuda.c"); return SUCCESS; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == MAJOR ? 9 : 0;
    return attribute == MAJOR || attribute == MINOR ? SUCCESS : INVALID_VALUE;
}
int cuDevicePrimaryCtxRetain(void **made, int device) { *made = &context; return SUCCESS; }
int cuCtxSetCurrent(void *given) { current = given; return given == &context ? SUCCESS : INVALID_CONTEXT; }
int cuStreamCreate(void **made, unsigned flags) {
    *made = &stream;
    return flags == NON_BLOCKING && current ? SUCCESS : INVALID_VALUE;
}
int cuStreamSynchronize(void *given) { return given == &stream && !capturing ? SUCCESS : INVALID_HANDLE; }

int cuMemAlloc_v2(uint64_t *address, size_t n) {
    if (capturing || !n) return INVALID_VALUE;
    if (n >> 33) return OUT_OF_MEMORY;
    void *made = aligned_alloc(256, (n + 255) / 256 * 256);
    memset(made, 0xA5, n);
    *address = (uint64_t)made;
    return SUCCESS;
}
int cuMemFree_v2(uint64_t address) {
    if (capturing) return CAPTURE_UNSUPPORTED;
    free((void *)address);
    return SUCCESS;
}

int cuMemHostAlloc(void **address, size_t n, unsigned flags) {
    *address = malloc(n);
    return flags || capturing || !n ? INVALID_VALUE : SUCCESS;
}
int cuMemFreeHost(void *address) { free(address); return SUCCESS; }

static int done(Work work) {
    if (work.function) return work.function->run(work.given, work.groups, work.threads, 0) ? SUCCESS : LAUNCH_FAILED;
    memcpy(work.to, work.from, work.n);
    return SUCCESS;
}
static int enqueued(void *given, Work work) {
    if (given != &stream) return INVALID_HANDLE;
    if (!capturing) return done(work);
    capturing->work = realloc(capturing->work, (capturing->count + 1) * sizeof work);
    capturing->work[capturing->count++] = work;
    return SUCCESS;
}
int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *given) {
    return enqueued(given, (Work){.to = (void *)to, .from = from, .n = n});
}
int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *given) {
    return enqueued(given, (Work){.to = to, .from = (void *)from, .n = n});
}
int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *given) {
    return enqueued(given, (Work){.to = (void *)to, .from = (void *)from, .n = n});
}

int cuEventCreate(struct timespec **event, unsigned flags) {
    *event = calloc(1, sizeof **event);
    return flags ? INVALID_VALUE : SUCCESS;
}
int cuEventRecord(struct timespec *event, void *given) {
    if (given != &stream || capturing) return INVALID_HANDLE;
    clock_gettime(CLOCK_MONOTONIC, event);
    return SUCCESS;
}
int cuEventElapsedTime(float *milliseconds, const struct timespec *a, const struct timespec *b) {
    if (!a->tv_sec || !b->tv_sec) return INVALID_HANDLE;
    *milliseconds = 1e3 * (b->tv_sec - a->tv_sec) + 1e-6 * (b->tv_nsec - a->tv_nsec);
    return SUCCESS;
}
int cuEventDestroy_v2(struct timespec *event) { free(event); return SUCCESS; }

int cuModuleLoadData(void **module, const void *image) {
    *module = dlopen(image, RTLD_NOW | RTLD_LOCAL);
    return *module ? SUCCESS : INVALID_IMAGE;
}
int cuModuleUnload(void *module) { return dlclose(module) ? INVALID_HANDLE : SUCCESS; }
int cuModuleGetFunction(void **made, void *module, const char *name) {
    char text[256];
    Function *function = malloc(sizeof *function);
    snprintf(text, sizeof text, "launch_%s", name);
    function->run = (int (*)(void **, unsigned, unsigned, int))dlsym(module, text);
    snprintf(text, sizeof text, "count_%s", name);
    int *count = dlsym(module, text);
    if (!function->run || !count) return NOT_FOUND;
    function->count = *count;
    function->shared = 0;
    *made = function;
    return SUCCESS;
}
int cuFuncSetAttribute(Function *function, int attribute, int value) {
    if (attribute != MOST_SHARED || value <= 48 << 10 || value > 227 << 10) return INVALID_VALUE;
    function->shared = value;
    return SUCCESS;
}
int cuLaunchKernel(Function *function, unsigned x, unsigned y, unsigned z, unsigned threads, unsigned wide, unsigned high,
                   unsigned shared, void *given, void **values, void **extra) {
    if (!x || y != 1 || z != 1 || !threads || wide != 1 || high != 1 || shared > function->shared || extra) return INVALID_VALUE;
    void **kept = malloc((function->count + 1) * sizeof *kept);
    for (int i = 0; i < function->count; i++) kept[i] = *(void **)values[i];
    return enqueued(given, (Work){.function = function, .groups = x, .threads = threads, .given = kept});
}

int cuStreamBeginCapture_v2(void *given, int mode) {
    if (given != &stream || capturing || mode != RELAXED) return INVALID_VALUE;
    capturing = calloc(1, sizeof *capturing);
    return SUCCESS;
}
int cuStreamEndCapture(void *given, Graph **graph) {
    *graph = capturing;
    capturing = NULL;
    return *graph ? SUCCESS : INVALID_VALUE;
}
int cuGraphInstantiateWithFlags(Graph **made, const Graph *graph, unsigned long long flags) {
    *made = malloc(sizeof **made);
    **made = *graph;
    (*made)->work = malloc((graph->count + 1) * sizeof(Work));
    memcpy((*made)->work, graph->work, graph->count * sizeof(Work));
    return flags ? INVALID_VALUE : SUCCESS;
}
int cuGraphDestroy(Graph *graph) { free(graph->work); free(graph); return SUCCESS; }
int cuGraphExecDestroy(Graph *graph) { destroyed++; free(graph->work); free(graph); return SUCCESS; }
int cuGraphLaunch(const Graph *graph, void *given) {
    if (given != &stream || capturing) return INVALID_HANDLE;
    launched++;
    for (int i = 0; i < graph->count; i++) {
        int status = done(graph->work[i]);
        if (status) return status;
    }
    return SUCCESS;
}

/* Newer bindings ask here for every function, and then for its newest form; that is found under one of these names. */
int cuGetProcAddress_v2(const char *name, void **found, int version, uint64_t flags, int *status) {
    static const char *const ends[] = {"_v2", "", "WithFlags"};
    void *self = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
    char text[256];
    *found = NULL;
    for (int i = 0; i < 3 && !*found; i++) {
        snprintf(text, sizeof text, "%s%s", name, ends[i]);
        *found = self ? dlsym(self, text) : NULL;
    }
    if (status) *status = !*found;
    return *found ? SUCCESS : NOT_FOUND;
}
