/* @NAME@_state.c: the memory of @NAME@, its step, and its state as a safetensors file, which wholestep loads and saves.
   Needs nothing but a C99 compiler. */
#include "@NAME@.h"

#include <string.h>

@RUNS@

/* SHA-256, FIPS 180-4. */

typedef struct {
    uint32_t h[8];
    uint64_t length;
    unsigned char block[64];
} ws_sha256;

static const uint32_t ws_k[64] = {
@ROUNDS@
};

static uint32_t ws_turned(uint32_t x, int n) { return (x >> n) | (x << (32 - n)); }

static void ws_compress(uint32_t *h, const unsigned char *p) {
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (ws_turned(a, 7) ^ ws_turned(a, 18) ^ (a >> 3)) +
               (ws_turned(b, 17) ^ ws_turned(b, 19) ^ (b >> 10));
    }
    memcpy(s, h, sizeof s);
    for (int i = 0; i < 64; i++) {
        uint32_t one = ws_turned(s[4], 6) ^ ws_turned(s[4], 11) ^ ws_turned(s[4], 25);
        uint32_t t = s[7] + one + ((s[4] & s[5]) ^ (~s[4] & s[6])) + ws_k[i] + w[i];
        uint32_t two = ws_turned(s[0], 2) ^ ws_turned(s[0], 13) ^ ws_turned(s[0], 22);
        uint32_t u = two + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        memmove(s + 1, s, 7 * sizeof *s);
        s[4] += t;
        s[0] = t + u;
    }
    for (int i = 0; i < 8; i++) h[i] += s[i];
}

static void ws_begin(ws_sha256 *c) {
    static const uint32_t first[8] = {0x6a09e667u, 0xbb67ae85u, 0x3c6ef372u, 0xa54ff53au,
                                      0x510e527fu, 0x9b05688cu, 0x1f83d9abu, 0x5be0cd19u};
    memcpy(c->h, first, sizeof first);
    c->length = 0;
}

static void ws_add(ws_sha256 *c, const unsigned char *p, size_t n) {
    size_t held = (size_t)(c->length % 64);
    c->length += n;
    while (n) {
        size_t part = 64 - held < n ? 64 - held : n;
        memcpy(c->block + held, p, part);
        held += part, p += part, n -= part;
        if (held == 64) ws_compress(c->h, c->block), held = 0;
    }
}

/* The digest as 64 letters. */
static void ws_end(ws_sha256 *c, unsigned char *letters) {
    uint64_t bits = 8 * c->length;
    unsigned char one = 0x80, nothing = 0, tail[8];
    for (int i = 0; i < 8; i++) tail[i] = (unsigned char)(bits >> (56 - 8 * i));
    ws_add(c, &one, 1);
    while (c->length % 64 != 56) ws_add(c, &nothing, 1);
    ws_add(c, tail, 8);
    for (int i = 0; i < 64; i++) letters[i] = (unsigned char)"0123456789abcdef"[c->h[i / 8] >> (28 - 4 * (i % 8)) & 15];
}

static void ws_digest(const unsigned char *p, size_t n, unsigned char *letters) {
    ws_sha256 c;
    ws_begin(&c);
    ws_add(&c, p, n);
    ws_end(&c, letters);
}

/* The state: for each array its place in memory and in the file's data, its bytes, and whether they are booleans. */

enum { ARRAYS = @ARRAYS@, HEAD = @HEAD@, DIGESTS = @DIGESTS@, SEAL = @SEAL@, TABLE = @TABLE@, TABLE_END = @TABLE_END@ };
#define DATA ((size_t)@DATA@)

static const struct {
    size_t place, start, nbytes;
    int boolean;
} ws_arrays[ARRAYS] = {
@STATE@
};

/* The head of a file, with zeros where digests go. */
static const unsigned char ws_head[HEAD] = {
@HEADER@
};

static const char ws_blocks[] = "\",\"wholestep.blocks\":\"", ws_seal[] = "\",\"wholestep.sha256\":\"", ws_close[] = "\"},";
static const char ws_open[] = "{\"__metadata__\":{\"wholestep\":\"";

@NAME@ *@NAME@_init(void *memory) {
    unsigned char *m = (unsigned char *)memory + (64 - (uintptr_t)memory % 64) % 64;
    memset(m, 0, @BLOCK@u);
    return (void *)m;
}

int @NAME@_step(@NAME@ *m) {
@STEP@
}
@OTHERS@

size_t @NAME@_save(const @NAME@ *m, void *out, size_t room) {
    unsigned char *p = out;
    if (room < HEAD + DATA) return 0;
    memcpy(p, ws_head, HEAD);
    for (int i = 0; i < ARRAYS; i++) {
        unsigned char *data = p + HEAD + ws_arrays[i].start;
        memcpy(data, (const unsigned char *)m + ws_arrays[i].place, ws_arrays[i].nbytes);
        ws_digest(data, ws_arrays[i].nbytes, p + DIGESTS + 64 * i);
    }
    unsigned char seal[64];
    ws_digest(p + 8, HEAD - 8, seal);
    memcpy(p + SEAL, seal, 64);
    return HEAD + DATA;
}

/* One past a piece of text at p, or null where it is not there. */
static const unsigned char *ws_after(const unsigned char *p, const unsigned char *end, const void *text, size_t n) {
    return p && (size_t)(end - p) >= n && !memcmp(p, text, n) ? p + n : NULL;
}

/* The digests of the arrays, where a head is that of a state like ours and its seal is right; null elsewhere. */
static const unsigned char *ws_checked(const unsigned char *head, const unsigned char *end) {
    static const unsigned char zeros[] = "0000000000000000000000000000000000000000000000000000000000000000";
    unsigned char seal[64];
    ws_sha256 c;
    const unsigned char *p = ws_after(head, end, ws_open, sizeof ws_open - 1);
    while (p && p < end && *p != '"') p += *p == '\\' ? 2 : 1;
    if (!p || p >= end) return NULL;
    const unsigned char *digests = ws_after(p, end, ws_blocks, sizeof ws_blocks - 1);
    if (!digests || end - digests < 64 * ARRAYS) return NULL;
    const unsigned char *stamp = ws_after(digests + 64 * ARRAYS, end, ws_seal, sizeof ws_seal - 1);
    if (!stamp || end - stamp < 64) return NULL;
    p = ws_after(stamp + 64, end, ws_close, sizeof ws_close - 1);
    p = ws_after(p, end, ws_head + TABLE, TABLE_END - TABLE);
    while (p && p < end && *p == ' ') p++;
    if (p != end) return NULL;
    ws_begin(&c);
    ws_add(&c, head, (size_t)(stamp - head));
    ws_add(&c, zeros, 64);
    ws_add(&c, stamp + 64, (size_t)(end - stamp - 64));
    ws_end(&c, seal);
    return memcmp(seal, stamp, 64) ? NULL : digests;
}

int @NAME@_load(@NAME@ *m, const void *file, size_t nbytes) {
    const unsigned char *p = file;
    unsigned char digest[64];
    uint64_t head = 0;
    if (nbytes < 8 || nbytes - 8 < DATA) return @UPPER@_NO_STATE;
    for (int i = 0; i < 8; i++) head |= (uint64_t)p[i] << (8 * i);
    if (head != nbytes - 8 - DATA) return @UPPER@_NO_STATE;
    const unsigned char *data = p + 8 + head, *digests = ws_checked(p + 8, data);
    if (!digests) return @UPPER@_NO_STATE;
    for (int i = 0; i < ARRAYS; i++) {
        const unsigned char *own = data + ws_arrays[i].start;
        ws_digest(own, ws_arrays[i].nbytes, digest);
        if (memcmp(digest, digests + 64 * i, 64)) return @UPPER@_DAMAGED;
        for (size_t k = 0; ws_arrays[i].boolean && k < ws_arrays[i].nbytes; k++)
            if (own[k] > 1) return @UPPER@_DAMAGED;
    }
    for (int i = 0; i < ARRAYS; i++)
        memcpy((unsigned char *)m + ws_arrays[i].place, data + ws_arrays[i].start, ws_arrays[i].nbytes);
    return 0;
}

@FAILURE@
