#include "cli/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <vector>

namespace steelyard {

bool is_packed(std::string_view bytes) {
  return bytes.size() > 18 && bytes.substr(0, 2) == "\x1f\x8b";
}

bool unpack(std::string_view packed, std::size_t most, std::string& text) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return false;
  std::vector<unsigned char> room(std::size_t{1} << 20);
  std::size_t at = 0;
  int status = Z_OK;
  bool well = true;
  while (well && status != Z_STREAM_END) {
    if (stream.avail_in == 0) {
      const std::size_t next = std::min(packed.size() - at, std::size_t{1} << 30);
      if (next == 0) break;
      // zlib reads only; its field is not const in older versions.
      stream.next_in = reinterpret_cast<unsigned char*>(const_cast<char*>(packed.data() + at));
      stream.avail_in = static_cast<unsigned>(next);
      at += next;
    }
    stream.next_out = room.data();
    stream.avail_out = static_cast<unsigned>(room.size());
    status = inflate(&stream, Z_NO_FLUSH);
    well = status == Z_OK || status == Z_STREAM_END || status == Z_BUF_ERROR;
    text.append(reinterpret_cast<const char*>(room.data()), room.size() - stream.avail_out);
    if (text.size() > most) well = false;
    if (status == Z_STREAM_END && (stream.avail_in > 0 || at < packed.size())) {
      status = inflateReset(&stream) == Z_OK ? Z_OK : Z_STREAM_END;
    }
    if (status == Z_BUF_ERROR && stream.avail_in == 0 && at == packed.size())
      break;  // cut: what came is read
  }
  inflateEnd(&stream);
  return well;
}

}  // namespace steelyard
