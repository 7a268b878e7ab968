/* Where a key stands in the order: words of floats say the same of zeros of either sign, and of all NaN. */
static uint@BITS@_t ws_rank_u@BITS@(uint@BITS@_t key, int floats) {
    const uint@BITS@_t half = (uint@BITS@_t)-1 / 2, low = (uint@BITS@_t)(((uint64_t)1 << (@BITS@ == 64 ? 52 : 23)) - 1);
    const uint@BITS@_t high = (uint@BITS@_t)~low;
    if (floats && (key < low || key > high)) return (uint@BITS@_t)-1;
    return floats && key == half ? (uint@BITS@_t)(half + 1) : key;
}

/* Rows of unsigned keys in ascending order, equal ones as they were: merges of runs that double in length. */
static void ws_sort_u@BITS@(const uint@BITS@_t *keys, uint@BITS@_t *sorted, uint@BITS@_t *room, int64_t n, int64_t rows,
                            int floats) {
    for (int64_t row = 0; row < rows; row++, keys += n, sorted += n) {
        uint@BITS@_t *from = sorted, *to = room;
        memcpy(from, keys, (size_t)n * sizeof *keys);
        for (int64_t run = 1; run < n; run *= 2) {
            for (int64_t start = 0; start < n; start += 2 * run) {
                const int64_t middle = start + run < n ? start + run : n, end = middle + run < n ? middle + run : n;
                int64_t a = start, b = middle;
                for (int64_t i = start; i < end; i++) {
                    const int first = a < middle && (b >= end || ws_rank_u@BITS@(from[a], floats) <= ws_rank_u@BITS@(from[b], floats));
                    to[i] = first ? from[a++] : from[b++];
                }
            }
            uint@BITS@_t *other = from;
            from = to;
            to = other;
        }
        if (from != sorted) memcpy(sorted, from, (size_t)n * sizeof *sorted);
    }
}
