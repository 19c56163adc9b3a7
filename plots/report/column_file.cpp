#include "plots/report/column_file.hpp"

#include <array>
#include <limits>

#define ZLIB_CONST  // zlib then declares its input const
#include <nlohmann/json.hpp>
#include <zlib.h>

#include "graph/core/errors.hpp"

namespace tidemark {
namespace column_file_detail {
namespace {

// 9 compresses a report by 4 % more than 6 in three times the time.
constexpr int kLevel = 6;
constexpr int kGzip = 15 + 16;  // zlib: the largest window, with a gzip header

std::string gzipped(std::string_view bytes) {
  if (bytes.size() > std::numeric_limits<uInt>::max()) {
    throw UserError("a run of more than 4 GiB of events is too long for an HTML report");
  }
  z_stream stream{};
  if (deflateInit2(&stream, kLevel, Z_DEFLATED, kGzip, 9, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw InternalError("zlib cannot be initialised");
  }
  std::string result(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<const Bytef*>(bytes.data());
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(result.data());
  stream.avail_out = static_cast<uInt>(result.size());
  const int status = deflate(&stream, Z_FINISH);
  result.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw InternalError("zlib has not written everything");
  return result;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::array<std::uint32_t, 3> in{};
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < count; ++k)
      in[k] = static_cast<unsigned char>(bytes[i + k]);
    const std::uint32_t bits = in[0] << 16U | in[1] << 8U | in[2];
    for (std::size_t k = 0; k < 4; ++k) {
      text += k <= count ? kDigits[(bits >> (18U - 6U * k)) & 63U] : '=';
    }
  }
  return text;
}

}  // namespace
}  // namespace column_file_detail

void ColumnWriter::add(std::int64_t value) {
  const std::int64_t stored = deltas_ ? value - last_ : value;
  last_ = value;
  ++count_;
  std::uint64_t zigzag =
      (static_cast<std::uint64_t>(stored) << 1U) ^ static_cast<std::uint64_t>(stored >> 63U);
  for (; zigzag >= 0x80U; zigzag >>= 7U)
    bytes_ += static_cast<char>((zigzag & 0x7fU) | 0x80U);
  bytes_ += static_cast<char>(zigzag);
}

void ColumnFile::add(std::string_view name, const ColumnWriter& column) {
  columns_.push_back({.name = std::string(name),
                      .count = column.count(),
                      .bytes = column.bytes().size(),
                      .deltas = column.deltas()});
  body_ += column.bytes();
}

std::string ColumnFile::text(nlohmann::ordered_json description) && {
  nlohmann::ordered_json columns = nlohmann::ordered_json::array();
  for (const Column& column : columns_) {
    columns.push_back({{"name", column.name},
                       {"count", column.count},
                       {"bytes", column.bytes},
                       {"deltas", column.deltas}});
  }
  description["columns"] = std::move(columns);
  // Names come from the user's files, which need not be UTF-8.
  const std::string head =
      description.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string text;
  text.reserve(4 + head.size() + body_.size());
  for (unsigned shift = 0; shift < 32; shift += 8)
    text += static_cast<char>((head.size() >> shift) & 0xffU);
  return text + head + body_;
}

std::string packed_for_page(std::string_view bytes) {
  return column_file_detail::base64(column_file_detail::gzipped(bytes));
}

}  // namespace tidemark
