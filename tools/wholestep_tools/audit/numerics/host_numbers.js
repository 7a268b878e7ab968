// Programs of host numbers as a page runs them: the words of all values, of each run one after another.
const answers = (programs) => programs.map(({ text, kinds, following, given, cases, steps }) => {
  const code = parsed(text);
  return given.map((words, lane) => {
    let values, scalars = words.map((bits, i) => word(kinds[i], bits));
    return Array.from({ length: steps }, () => {
      values = computed(code, scalars, cases[lane]);
      scalars = after({ following }, scalars, values);
      return values.map((x, n) => {
        const kind = code[n][1];
        if (kind === "bool") return String(Number(x));
        if (Number.isNaN(x)) return "nan";
        return String(bitsAs("u64", x, kind));
      });
    });
  });
});
