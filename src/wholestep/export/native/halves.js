// Half precision by its bits: of each format the bits of the fraction, and the exponent of the least normal number.
const FORMATS = { float16: [10, -14], bfloat16: [7, -126] };

// The numbers that words of 16 bits stand for, as a Float32Array.
export const numbers = (bits, format) => {
  const [width, least] = FORMATS[format], top = (1 << (15 - width)) - 1, one = 1 << width;
  return Float32Array.from(bits, (x) => {
    const exponent = (x >> width) & top, fraction = x & (one - 1);
    const beyond = fraction ? NaN : Infinity;
    const size = exponent ? (one + fraction) * 2 ** (exponent - 1 + least - width) : fraction * 2 ** (least - width);
    return (x & 0x8000 ? -1 : 1) * (exponent === top ? beyond : size);
  });
};

// Numbers as words of 16 bits, each rounded once, to the nearest and from a tie to the even one.
export const halves = (given, format) => {
  const [width, least] = FORMATS[format], infinity = 0x7fff & -(1 << width);
  return Uint16Array.from(given, (x) => {
    const size = Math.abs(x), sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
    if (!(size < Infinity)) return sign | infinity | (size === Infinity ? 0 : 1 << (width - 1));
    let exponent = Math.max(Math.floor(Math.log2(size)), least);
    if (exponent > least && 2 ** exponent > size) exponent--;
    if (2 ** (exponent + 1) <= size) exponent++;
    const units = size * 2 ** (width - exponent), whole = Math.floor(units), rest = units - whole;
    const rounded = whole + (rest > 0.5 || (rest === 0.5 && whole % 2));
    return sign | Math.min(((exponent - least) << width) + rounded, infinity);
  });
};

