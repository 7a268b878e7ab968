/* Constants and the state file are the bytes of little-endian numbers. */
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "this program is for little-endian processors"
#endif

/* A sum of a product is rounded twice where it is not written as one operation. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("no-math-errno", "no-trapping-math", "fp-contract=off")
#endif

#include <math.h>
#include <stdint.h>
#include <string.h>

/* A square root is taken in vectors only where it cannot set errno, which the declaration must say. */
#if defined(__GNUC__)
extern float sqrtf(float) __attribute__((__const__));
extern double sqrt(double) __attribute__((__const__));
#endif

/* Steps of the loop that follows are independent of each other: this has been verified, and no pointer is restricted. */
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wpass-failed" /* where vectors are impossible, the loop is right as it stands */
#pragma clang diagnostic ignored "-Wtautological-compare" /* a program may compare a value with itself */
#define WS_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define WS_LANES
#elif defined(__GNUC__)
#define WS_INDEPENDENT _Pragma("GCC ivdep")
/* The lanes of a vector, of which GCC makes no vector once it has unrolled the loop. */
#define WS_LANES _Pragma("GCC ivdep") _Pragma("GCC unroll 1")
#else
#define WS_INDEPENDENT
#define WS_LANES
#endif

/* GCC fuses differences and sums of products that lie side by side where it makes vectors of them, whatever it is told. */
#if defined(__GNUC__) && !defined(__clang__)
#define WS_IN_ORDER __attribute__((optimize("no-tree-vectorize")))
#else
#define WS_IN_ORDER
#endif

/* GCC 12 makes vectors of short rows of guarded loads that are 0 where a number should be. */
#if defined(__GNUC__) && !defined(__clang__)
#define WS_GUARDED __attribute__((optimize("no-tree-loop-if-convert")))
#else
#define WS_GUARDED
#endif

/* Clang fuses where the processor does, and does not say so. */
#if defined(__clang__) && (defined(__FMA__) || defined(__aarch64__)) && !defined(FP_FAST_FMA)
#define FP_FAST_FMAF 1
#define FP_FAST_FMA 1
#endif

/* A multiply-add is rounded once where the processor has one, and twice elsewhere. */
#ifdef FP_FAST_FMAF
#define ws_fmaf(a, b, c) fmaf(a, b, c)
#else
#define ws_fmaf(a, b, c) ((a) * (b) + (c))
#endif
#ifdef FP_FAST_FMA
#define ws_fma(a, b, c) fma(a, b, c)
#else
#define ws_fma(a, b, c) ((a) * (b) + (c))
#endif

/* Subnormal numbers are zero while a step runs, as they are in Python. */
#if defined(__SSE__)
#include <xmmintrin.h>
typedef unsigned int ws_mode;
static ws_mode ws_enter(void) {
    const ws_mode old = _mm_getcsr();
    _mm_setcsr(0x9fc0);
    return old;
}
static void ws_leave(ws_mode old) { _mm_setcsr(old); }
#elif defined(__aarch64__) && defined(__GNUC__)
typedef uint64_t ws_mode;
static ws_mode ws_enter(void) {
    ws_mode old, mode = 1u << 24;
    __asm__ volatile("mrs %0, fpcr" : "=r"(old));
    __asm__ volatile("msr fpcr, %0" : : "r"(mode));
    return old;
}
static void ws_leave(ws_mode old) { __asm__ volatile("msr fpcr, %0" : : "r"(old)); }
#else
typedef int ws_mode;
static ws_mode ws_enter(void) { return 0; }
static void ws_leave(ws_mode old) { (void)old; }
#endif
