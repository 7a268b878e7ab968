/* The order of the rows of unsigned keys, equal ones as they were: merges of runs that double in length. Short rows,
   which have no room for indices, are sorted by insertion. */
static void ws_argsort_u@BITS@(const uint@BITS@_t *keys, int64_t *order, int64_t *room, int64_t n, int64_t rows) {
    for (int64_t row = 0; row < rows; row++, keys += n, order += n) {
        int64_t *from = order, *to = room;
        for (int64_t i = 0; i < n; i++) {
            int64_t j = i;
            for (; n <= 64 && j > 0 && keys[order[j - 1]] > keys[i]; j--) order[j] = order[j - 1];
            order[j] = i;
        }
        if (n <= 64) continue;
        for (int64_t run = 1; run < n; run *= 2) {
            for (int64_t start = 0; start < n; start += 2 * run) {
                const int64_t middle = start + run < n ? start + run : n, end = middle + run < n ? middle + run : n;
                int64_t a = start, b = middle;
                for (int64_t i = start; i < end; i++) {
                    const int first = a < middle && (b >= end || keys[from[a]] <= keys[from[b]]);
                    to[i] = first ? from[a++] : from[b++];
                }
            }
            int64_t *other = from;
            from = to;
            to = other;
        }
        if (from != order) memcpy(order, from, (size_t)n * sizeof *order);
    }
}
