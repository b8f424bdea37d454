// Shapes of answers, read back as JSON.
#include "lib/server/openai/response_json.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "lib/server/http/api_error.h"
#include "tests/lib/tokenizer/small_tokenizers.h"

using namespace nvllm;
using namespace nvllm::server;
using Json = nlohmann::json;

namespace {

const ResponseEnvelope kCompletion{
    .is_chat = false, .id = "cmpl-1", .created = 17, .model = "m\"1"};
const ResponseEnvelope kChat{.is_chat = true, .id = "chatcmpl-1", .created = 17, .model = "m"};

std::shared_ptr<const Tokenizer> tokenizer() {
    static const auto made = test::tokenizer_of(test::byte_level_json());
    return made;
}

int32_t id_of(const char* text) { return tokenizer()->encode(text).front(); }

SampledLogprobs sampled(int32_t id, float logprob, std::vector<TokenLogprob> top = {}) {
    SampledLogprobs token;
    token.chosen = {id, logprob};
    token.rank = 1;
    token.top = std::move(top);
    return token;
}

LogprobPiece piece_of(std::vector<SampledLogprobs> output, std::string_view text = {}) {
    LogprobPiece piece;
    piece.output = std::move(output);
    piece.text = text;
    return piece;
}

}  // namespace

TEST_CASE("answers: a completion") {
    const ChoicePiece one{
        .index = 0, .text = "a\n\"", .finish_reason = FinishReason::stop, .stop_reason = 7};
    const ChoicePiece other{.index = 1,
                            .text = "",
                            .finish_reason = FinishReason::length,
                            .token_ids = std::vector<int32_t>{1, 2},
                            .prompt_logprobs = "[null]"};
    const Json json = Json::parse(whole_response(kCompletion, {one, other}, {5, 3, 4}));
    CHECK(json["object"] == "text_completion");
    CHECK(json["id"] == "cmpl-1");
    CHECK(json["created"] == 17);
    CHECK(json["model"] == "m\"1");
    CHECK(json["choices"][0] == Json{{"index", 0},
                                     {"text", "a\n\""},
                                     {"logprobs", nullptr},
                                     {"finish_reason", "stop"},
                                     {"stop_reason", 7}});
    CHECK(json["choices"][1]["token_ids"] == Json{1, 2});
    CHECK(json["choices"][1]["prompt_logprobs"] == Json::array({nullptr}));
    CHECK(json["choices"][1]["stop_reason"] == nullptr);
    CHECK(json["usage"] == Json{{"prompt_tokens", 5},
                                {"completion_tokens", 3},
                                {"total_tokens", 8},
                                {"prompt_tokens_details", {{"cached_tokens", 4}}}});
}

TEST_CASE("answers: a chat and its chunks") {
    ChoicePiece piece{.index = 2, .text = "Hi"};
    const Json whole = Json::parse(whole_response(kChat, {piece}, {}));
    CHECK(whole["object"] == "chat.completion");
    CHECK(whole["choices"][0]["message"] ==
          Json{{"role", "assistant"}, {"content", "Hi"}, {"refusal", nullptr}});

    const Json role = Json::parse(role_chunk(kChat, 2, ChunkUsage::null, {}));
    CHECK(role["object"] == "chat.completion.chunk");
    CHECK(role["choices"][0]["delta"] == Json{{"role", "assistant"}, {"content", ""}});
    CHECK(role["usage"] == nullptr);
    const Json said = Json::parse(chunk_of(kChat, piece, ChunkUsage::absent, {}));
    CHECK(said["choices"][0]["delta"] == Json{{"content", "Hi"}});
    CHECK(said["choices"][0]["finish_reason"] == nullptr);
    CHECK(!said.contains("usage"));
    piece.text.clear();
    piece.finish_reason = FinishReason::length;
    const Json last = Json::parse(chunk_of(kChat, piece, ChunkUsage::given, {1, 2, 0}));
    CHECK(last["choices"][0]["delta"] == Json::object());
    CHECK(last["choices"][0]["finish_reason"] == "length");
    CHECK(last["usage"]["total_tokens"] == 3);
    const Json usage = Json::parse(usage_chunk(kChat, {1, 2, 0}));
    CHECK(usage["choices"] == Json::array());
    CHECK(usage["usage"]["total_tokens"] == 3);
}

TEST_CASE("answers: a stop string is its own reason, the end and the length are none") {
    ChoicePiece piece{.finish_reason = FinishReason::stop, .stop_reason = "a\"b"};
    for (const ResponseEnvelope& head : {kCompletion, kChat}) {
        const Json json = Json::parse(whole_response(head, {piece}, {}));
        CHECK(json["choices"][0]["stop_reason"] == "a\"b");
    }
    piece.stop_reason.reset();
    const Json chunk = Json::parse(chunk_of(kChat, piece, ChunkUsage::absent, {}))["choices"][0];
    REQUIRE(chunk.contains("stop_reason"));
    CHECK(chunk["stop_reason"] == nullptr);
    piece.finish_reason.reset();
    CHECK(!Json::parse(chunk_of(kChat, piece, ChunkUsage::absent, {}))["choices"][0].contains(
        "stop_reason"));
}

TEST_CASE("answers: a prompt's logprobs are a chat's own, and of completions each choice's") {
    const ChoicePiece piece{.prompt_logprobs = "[null,{}]"};
    const Json wanted = Json::parse(piece.prompt_logprobs);
    for (const std::string& text : {whole_response(kChat, {piece, ChoicePiece{.index = 1}}, {}),
                                    chunk_of(kChat, piece, ChunkUsage::absent, {})}) {
        const Json chat = Json::parse(text);
        CHECK(chat["prompt_logprobs"] == wanted);
        CHECK(!chat["choices"][0].contains("prompt_logprobs"));
    }
    const Json completion = Json::parse(whole_response(kCompletion, {piece}, {}));
    CHECK(completion["choices"][0]["prompt_logprobs"] == wanted);
    CHECK(!completion.contains("prompt_logprobs"));
}

TEST_CASE("answers: progress") {
    const PromptProgress progress{.total = 10, .cached = 2, .processed = 6, .time_ms = 1.23456};
    for (const ResponseEnvelope& head : {kCompletion, kChat}) {
        const Json json = Json::parse(progress_chunk(head, progress, ChunkUsage::absent, {}));
        CHECK(json["prompt_progress"] ==
              Json{{"total", 10}, {"cache", 2}, {"processed", 6}, {"time_ms", 1.235}});
        CHECK(json["choices"].size() == 1);
    }
}

TEST_CASE("answers: text that is no UTF-8 does not break the JSON") {
    const ChoicePiece piece{.index = 0, .text = "a\xff\x01"};
    CHECK(Json::parse(chunk_of(kCompletion, piece, ChunkUsage::absent, {}))["choices"][0]["text"] ==
          "a\xEF\xBF\xBD\x01");
}

TEST_CASE("logprobs: those of a chat, with bytes") {
    LogprobWriter writer(tokenizer(), true);
    const int32_t the = id_of("the"), half = tokenizer()->encode("é").front();
    const Json json = Json::parse(writer.json(
        piece_of({sampled(the, -0.5f, {{the, -0.5f}, {half, -2.0f}}), sampled(half, -1.0f)})));
    const Json& content = json["content"];
    CHECK(content[0]["token"] == "the");
    CHECK(content[0]["logprob"] == -0.5);
    CHECK(content[0]["bytes"] == Json{116, 104, 101});
    CHECK(content[0]["top_logprobs"].size() == 2);
    CHECK(content[0]["top_logprobs"][1]["bytes"] == Json::array({0xC3}));
    CHECK(content[1]["token"] == "\xEF\xBF\xBD");
    CHECK(content[1]["top_logprobs"] == Json::array());
    CHECK(json["refusal"] == nullptr);
}

TEST_CASE("logprobs: tokens as their ids, for those who must tell tokens of one text apart") {
    const int32_t the = id_of("the");
    const std::string name = "token_id:" + std::to_string(the);
    LogprobWriter chat(tokenizer(), true, true), completion(tokenizer(), false, true);
    const LogprobPiece piece = piece_of({sampled(the, -0.5f, {{the, -0.5f}})});
    const Json token = Json::parse(chat.json(piece))["content"][0];
    CHECK(token["token"] == name);
    CHECK(token["bytes"].size() == name.size());
    CHECK(token["top_logprobs"][0]["token"] == name);
    const Json lists = Json::parse(completion.json(piece));
    CHECK(lists["tokens"] == Json{name});
    CHECK(lists["top_logprobs"][0] == Json{{name, -0.5}});
}

TEST_CASE("logprobs: what JSON has no number for is very unlikely") {
    LogprobWriter writer(tokenizer(), true);
    const float infinity = std::numeric_limits<float>::infinity();
    const Json content =
        Json::parse(writer.json(piece_of({sampled(1, -infinity), sampled(1, std::nanf("")),
                                          sampled(1, -1e9f), sampled(1, -3.0f)})))["content"];
    CHECK(content[0]["logprob"] == -9999.0);
    CHECK(content[1]["logprob"] == -9999.0);
    CHECK(content[2]["logprob"] == -9999.0);
    CHECK(content[3]["logprob"] == -3.0);
}

TEST_CASE("logprobs: completions, with offsets from piece to piece") {
    LogprobWriter writer(tokenizer(), false);
    const int32_t the = id_of("the"), in = id_of("in");
    LogprobPiece first = piece_of({sampled(the, -0.25f, {{the, -0.25f}})}, "the");
    const std::vector<int32_t> prompt = {in};
    first.start = ChoiceStart{prompt, std::nullopt, true};
    const Json one = Json::parse(writer.json(first));
    CHECK(one["tokens"] == Json{"the"});
    CHECK(one["token_logprobs"] == Json{-0.25});
    CHECK(one["top_logprobs"] == Json::array({{{"the", -0.25}}}));
    CHECK(one["text_offset"] == Json{0});
    const Json two =
        Json::parse(writer.json(piece_of({sampled(in, -1.0f), sampled(the, -1.0f)}, "inthe")));
    CHECK(two["text_offset"] == Json{3, 5});
}

TEST_CASE("logprobs: an echo begins with a token that nothing predicts") {
    LogprobWriter writer(tokenizer(), false);
    const std::vector<int32_t> prompt = {id_of("the"), id_of("in")};
    LogprobPiece piece = piece_of({sampled(prompt[0], -1.0f)}, "theinthe");
    piece.start = ChoiceStart{prompt, "thein", true};
    piece.prompt = {sampled(prompt[1], -2.0f)};
    const Json json = Json::parse(writer.json(piece));
    CHECK(json["tokens"] == Json{"the", "in", "the"});
    CHECK(json["token_logprobs"] == Json{nullptr, -2.0, -1.0});
    CHECK(json["top_logprobs"][0] == nullptr);
    CHECK(json["text_offset"] == Json{0, 3, 5});
}

TEST_CASE("logprobs: tokens that a stop string cut off stand at the end of the text") {
    LogprobWriter writer(tokenizer(), false);
    const int32_t the = id_of("the");
    LogprobPiece piece =
        piece_of({sampled(the, -1.0f), sampled(the, -1.0f), sampled(the, -1.0f)}, "the");
    piece.start = ChoiceStart{{}, std::nullopt, true};
    piece.is_last = true;
    CHECK(Json::parse(writer.json(piece))["text_offset"] == Json{0, 3, 3});
}

TEST_CASE(
    "logprobs: of two tokens with the same text the likelier stands, the chosen one always does") {
    LogprobWriter writer(tokenizer(), false);
    const auto e = tokenizer()->encode("é"), n = tokenizer()->encode("ñ");
    REQUIRE(e[1] != n[1]);  // both are U+FFFD by themselves
    LogprobPiece piece = piece_of({sampled(n[1], -3.0f, {{e[1], -0.5f}, {id_of("in"), -1.0f}})});
    piece.start = ChoiceStart{{}, std::nullopt, true};
    const Json top = Json::parse(writer.json(piece))["top_logprobs"][0];
    CHECK(top == Json{{"\xEF\xBF\xBD", -0.5}, {"in", -1.0}});
}

TEST_CASE("logprobs: of a prompt as vLLM gives them") {
    const int32_t the = id_of("the"), in = id_of("in");
    SampledLogprobs unlikely = sampled(in, -5.0f, {{the, -0.1f}});
    unlikely.rank = 9;
    const Json json = Json::parse(
        prompt_logprobs_json({sampled(the, -0.1f, {{the, -0.1f}}), unlikely}, tokenizer().get()));
    REQUIRE(json.size() == 3);
    CHECK(json[0] == nullptr);
    CHECK(json[1].size() == 1);
    const Json& entry = json[2][std::to_string(in)];
    CHECK(entry["rank"] == 9);
    CHECK(entry["decoded_token"] == "in");
    CHECK(json[2][std::to_string(the)]["rank"] == 1);
}

TEST_CASE("errors: every status has its type, and four fields") {
    const auto type = [](int status, const char* code = "") {
        return error_type({.status = status, .message = "m", .code = code});
    };
    CHECK(type(400) == "invalid_request_error");
    CHECK(type(401) == "authentication_error");
    CHECK(type(404) == "invalid_request_error");
    CHECK(type(429) == "overloaded_error");
    CHECK(type(429, "rate_limit_exceeded") == "rate_limit_error");
    CHECK(type(500) == "server_error");
    CHECK(type(503) == "server_error");
    const Json body = Json::parse(error_body({.status = 400, .message = "a\"b", .param = "n"}));
    CHECK(body == Json{{"error",
                        {{"message", "a\"b"},
                         {"type", "invalid_request_error"},
                         {"param", "n"},
                         {"code", nullptr}}}});
}

TEST_CASE("errors: clients are told whether to ask again") {
    const auto header = [](const ApiError& error, const std::string& name) -> std::string {
        for (const HttpHeader& each : error_response(error).headers) {
            if (each.name == name) return each.value;
        }
        return "";
    };
    for (const int status : {400, 401, 403, 404, 405, 413, 414, 415, 431}) {
        CHECK(header({.status = status, .message = "m"}, "x-should-retry") == "false");
    }
    for (const int status : {408, 429, 500, 503, 504}) {
        CHECK(header({.status = status, .message = "m"}, "x-should-retry") == "");
    }
    CHECK(header({.status = 500, .message = "m", .code = "nonfinite_logits"}, "x-should-retry") ==
          "false");
    CHECK(header({.status = 429, .message = "m", .retry_after_s = 7}, "Retry-After") == "7");
    CHECK(header({.status = 429, .message = "m"}, "Retry-After") == "");
}
