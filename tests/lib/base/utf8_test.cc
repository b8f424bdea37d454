// UTF-8 decoding and repair.
#include "lib/base/utf8.h"

#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/shared_data.h"

namespace nvllm {
namespace {

// Standard base64; test data only, so it is taken to be right.
std::string from_base64(const std::string& text) {
    static const std::string kDigits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    uint32_t bits = 0;
    int count = 0;
    for (const char c : text) {
        if (c == '=') break;
        bits = (bits << 6) | static_cast<uint32_t>(kDigits.find(c));
        count += 6;
        if (count >= 8) {
            count -= 8;
            out.push_back(static_cast<char>((bits >> count) & 0xFF));
        }
    }
    return out;
}

TEST_CASE("utf8: every character survives append and decode") {
    for (char32_t c = 0; c <= 0x10FFFF; ++c) {
        if (c >= 0xD800 && c <= 0xDFFF) continue;
        std::string text;
        utf8::append(text, c);
        const utf8::Decoded decoded = utf8::decode(text);
        REQUIRE(decoded.valid);
        REQUIRE(decoded.code_point == c);
        REQUIRE(decoded.length == text.size());
        REQUIRE(utf8::length_from_lead(static_cast<unsigned char>(text[0])) == text.size());
        for (size_t cut = 1; cut < text.size(); ++cut) {
            REQUIRE(utf8::incomplete_suffix(std::string_view(text).substr(0, cut)) == cut);
        }
        REQUIRE(utf8::incomplete_suffix(text) == 0);
    }
}

TEST_CASE("utf8: broken bytes become one replacement per maximal bad part") {
    CHECK(utf8::with_replacement("a\xFF"
                                 "b") ==
          "a\xEF\xBF\xBD"
          "b");
    CHECK(utf8::with_replacement("\xF0\x9F\x98") == "\xEF\xBF\xBD");
    CHECK(utf8::with_replacement("\xE0\x80\x80") == "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
    CHECK(utf8::with_replacement("\xED\xA0\x80").size() == 9);
    CHECK_FALSE(utf8::is_valid("\xC0\x80"));
    CHECK(utf8::is_valid("\xF4\x8F\xBF\xBF"));
    CHECK_FALSE(utf8::is_valid("\xF4\x90\x80\x80"));
    CHECK(utf8::count("a\xC3\xA9\xE2\x82\xAC") == 3);
    CHECK(utf8::from_code_points(utf8::to_code_points("a\xC3\xA9")) == "a\xC3\xA9");
}

TEST_CASE("utf8: the shared malformed cases") {
    const auto folder = test::shared_data("malformed");
    if (folder.empty()) return;
    std::ifstream file(folder / "utf8.jsonl");
    size_t cases = 0;
    for (std::string line; std::getline(file, line); ++cases) {
        const auto entry = nlohmann::json::parse(line);
        const std::string bytes = from_base64(entry["bytes_base64"]);
        CAPTURE(entry["name"].get<std::string>());
        CHECK(utf8::is_valid(bytes) == entry["valid_utf8"].get<bool>());
        CHECK(utf8::with_replacement(bytes) ==
              entry["decoded_with_replacement"].get<std::string>());
    }
    CHECK(cases > 20);
}

}  // namespace
}  // namespace nvllm
