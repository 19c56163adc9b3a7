// Reads what column_file.cpp writes: a description and columns of integers, packed for a page.

export async function unpack(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i)
    bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// LEB128 of zigzag. Values reach 2^53, so bits above the 28th are added, not shifted; most need
// none of them and stay small integers, which engines handle fastest.
function decodeColumn(bytes, begin, {count, deltas}) {
  const values = new Float64Array(count);
  let at = begin;
  let last = 0;
  for (let i = 0; i < count; ++i) {
    let byte = bytes[at++];
    let bits = byte & 0x7f;
    let signed;
    let shift = 7;
    while (byte >= 0x80 && shift < 28) {
      byte = bytes[at++];
      bits |= (byte & 0x7f) << shift;
      shift += 7;
    }
    if (byte < 0x80) {
      signed = (bits >>> 1) ^ -(bits & 1);
    } else {
      let value = bits;
      let unit = 2 ** 28;
      do {
        byte = bytes[at++];
        value += (byte & 0x7f) * unit;
        unit *= 128;
      } while (byte >= 0x80);
      signed = value % 2 === 0 ? value / 2 : -(value + 1) / 2;
    }
    last = deltas ? last + signed : signed;
    values[i] = last;
  }
  return values;
}

// {description, columns: {'point.time': Float64Array, ...}}
export function readColumns(bytes) {
  const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
  const description = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const columns = {};
  let begin = 4 + length;
  for (const column of description.columns) {
    columns[column.name] = decodeColumn(bytes, begin, column);
    begin += column.bytes;
  }
  return {description, columns};
}
