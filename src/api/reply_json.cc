// A reply as one text, for callers that take no more.
#include <fmt/format.h>
#include <steelyard/steelyard.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

namespace steelyard {
namespace {

using Json = nlohmann::ordered_json;

// Quoted; nothing where it is no UTF-8, which JSON cannot hold.
std::optional<std::string> quoted(const std::string& text) {
  try {
    return Json(text).dump(-1, ' ', false, Json::error_handler_t::strict);
  } catch (const Json::type_error&) {
    return std::nullopt;
  }
}

// Words quote files of others: what is no UTF-8 in them is shown as U+FFFD.
std::string quoted_words(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - at);
    unsigned group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8U | (i < count ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += i <= count ? kDigits[group >> (18 - 6 * i) & 63U] : '=';
  }
  return text;
}

std::string file_json(const NamedText& file) {
  if (const auto text = quoted(file.text))
    return fmt::format("{{\"name\": {}, \"text\": {}}}", quoted_words(file.name), *text);
  return fmt::format("{{\"name\": {}, \"base64\": \"{}\"}}", quoted_words(file.name),
                     base64(file.text));
}

}  // namespace

std::string reply_json(const Reply& reply) {
  std::string text = fmt::format("{{\"status\": {}, ", reply.status);
  // A document is taken over as it is: parsing it again would cost more than writing it did.
  if (reply.text.starts_with("{"))
    text += "\"document\": " + reply.text;
  else
    text += "\"text\": " + quoted_words(reply.text);
  text += ", \"remarks\": " + quoted_words(reply.remarks) + ", \"files\": [";
  for (const NamedText& file : reply.files)
    text += (&file == reply.files.data() ? "" : ", ") + file_json(file);
  return text + "]}";
}

}  // namespace steelyard
