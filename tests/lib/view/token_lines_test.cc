// Lines of text, ids and conversations: answers, faults, and JSON that is always valid.
#include "lib/view/token_lines.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "lib/jinja/template_time.h"
#include "lib/view/special_tokens.h"
#include "lib/view/template_lines.h"

using namespace nvllm;
using namespace nvllm::view;
using Json = nlohmann::json;

namespace {

std::shared_ptr<const Tokenizer> demo() {
    static const auto tokenizer = Tokenizer::load(NVLLM_SOURCE_DIR "/models/demo");
    return tokenizer;
}

Json encoded(const std::string& line, const TokenLineOptions& options = {}) {
    return Json::parse(encode_line(*demo(), line, options).json);
}

Json decoded(const std::string& line, const TokenLineOptions& options = {}) {
    return Json::parse(decode_line(*demo(), line, options).json);
}

}  // namespace

TEST_CASE("a line is a text, or an object with one") {
    const Json plain = encoded("Once upon a time");
    CHECK(plain["ids"].size() == plain["tokens"].size());
    CHECK(encoded(R"({"text": "Once upon a time"})") == plain);
    // A text that only looks like an object.
    CHECK(decoded(encoded("{Once").dump())["text"] == "{Once");
    CHECK(decoded(encoded(R"({"word": 1})").dump())["text"] == R"({"word": 1})");
    const Json literal = encoded(R"({"text": "x"})", {.format = LineFormat::text});
    CHECK(decoded(literal.dump())["text"] == R"({"text": "x"})");
    CHECK(encoded("plain", {.format = LineFormat::jsonl}).contains("error"));
    CHECK(encode_line(*demo(), "plain", {.format = LineFormat::jsonl}).fault ==
          ErrorKind::bad_data);
}

TEST_CASE("special tokens are added, read and shown when asked for") {
    const int32_t begin = *demo()->bos_id();
    CHECK(encoded("Hi", {.add_special_tokens = true})["ids"][0] == begin);
    CHECK(encoded("Hi")["ids"][0] != begin);
    CHECK(encoded(demo()->bos_text())["ids"] == Json{begin});
    CHECK(encoded(demo()->bos_text(), {.parse_special = false})["ids"].size() > 1);
    const std::string line = Json{{"ids", {begin}}}.dump();
    CHECK(decoded(line)["text"] == "");
    CHECK(decoded(line, {.keep_special = true})["text"] == demo()->bos_text());
}

TEST_CASE("ids come as an object or a bare array, and must be there") {
    const Json ids = encoded("Once")["ids"];
    CHECK(decoded(ids.dump())["text"] == "Once");
    CHECK(decoded(Json{{"token_ids", ids}}.dump())["text"] == "Once");
    for (const char* line : {"[99999999]", "[-1]", "[1.5]", "[\"1\"]", "[18446744073709551615]",
                             "7", "{}", "", "[1", "[[1]]", "{\"ids\": 3}"}) {
        CAPTURE(line);
        CHECK(decode_line(*demo(), line, {}).fault == ErrorKind::bad_data);
        CHECK(decoded(line).contains("error"));
    }
}

TEST_CASE("broken UTF-8 leaves the answer valid JSON") {
    for (const char* line : {"\xff\xfe", "a\xc3", "\xed\xa0\x80", "{\"text\": \"\xff\"}"}) {
        CHECK(encoded(line)["ids"].is_array());
    }
}

TEST_CASE("special tokens are listed with their roles") {
    const auto tokens = special_tokens(*demo());
    REQUIRE(tokens.size() == 6);
    CHECK(tokens[0].text == "<|begin|>");
    CHECK(tokens[0].role == "bos");
    CHECK(tokens[1].role == "eos");
}

TEST_CASE("a conversation is rendered with the tokenizer's special tokens, or its own alone") {
    const std::string shown =
        "{{ bos_token }}|{{ add_generation_prompt }}|{{ messages[0].content }}";
    const ConversationRenderer with_model(demo(), "llama", shown);
    const ChatTemplate alone(shown);
    const std::string line = R"({"messages": [{"role": "user", "content": "Hi"}]})";
    const auto text = [](const LineAnswer& answer) {
        return Json::parse(answer.json)["text"].get<std::string>();
    };
    CHECK(text(render_line(with_model, line, {})) == "<|begin|>|True|Hi");
    CHECK(text(render_line(alone, line, {})) == "||Hi");
    // An engine joins parts; the template alone is given what the line says.
    const std::string parts = R"({"messages": [{"role": "user", "content": ["a", "b"]}]})";
    CHECK(text(render_line(with_model, parts, {})) == "<|begin|>|True|a\nb");
    CHECK(text(render_line(alone, parts, {})) == "||['a', 'b']");
    for (const char* wrong : {"[]", "{", "", "{\"messages\": 3}"}) {
        CAPTURE(wrong);
        const LineAnswer answer = render_line(with_model, wrong, {});
        CHECK(answer.fault.has_value());
        CHECK(Json::parse(answer.json).contains("error"));
    }
}

TEST_CASE("a template is chosen by name") {
    CHECK_FALSE(template_named(*demo(), "").empty());
    try {
        template_named(*demo(), "tool_use");
        FAIL("expected an error");
    } catch (const Error& error) {
        CHECK(std::string(error.what()).find("default") != std::string::npos);
    }
}

TEST_CASE("times that a template may be given") {
    const auto time = parse_time("2026-01-02 03:04:05");
    REQUIRE(time);
    CHECK(time->tm_wday == 5);
    CHECK(time->tm_hour == 3);
    CHECK(parse_time("2026-01-02")->tm_yday == 1);
    for (const char* wrong : {"", "now", "2026-02-31", "2026-01-02 03:04:05 x", "2026-13-01"}) {
        CHECK_FALSE(parse_time(wrong));
    }
}
