// Bodies of /v1/score, /v1/rerank and /classify.
#include "lib/server/openai/score_request.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

using namespace nvllm;
using namespace nvllm::server;
using Json = nlohmann::ordered_json;

namespace {

using Texts = std::vector<std::string>;

constexpr RequestLimits kLimits = {.max_prompts = 3};

Result<ScoreRequest> score(const char* body) {
    return read_score_request(Json::parse(body), kLimits);
}
Result<RerankRequest> rerank(const char* body) {
    return read_rerank_request(Json::parse(body), kLimits);
}
Result<ClassifyRequest> classify(const char* body) {
    return read_classify_request(Json::parse(body), kLimits);
}

template <typename Request>
std::string field_at_fault(const Result<Request>& request) {
    return request ? "nothing" : request.fault().field;
}

}  // namespace

TEST_CASE("score request: the texts under each of their names") {
    for (const char* body : {R"({"text_1": "a", "text_2": ["b", {"text": "c"}]})",
                             R"({"queries": "a", "documents": ["b", "c"]})",
                             R"({"data_1": ["a"], "data_2": [{"text": "b"}, "c"]})"}) {
        CAPTURE(body);
        const auto request = score(body);
        REQUIRE(request);
        CHECK(request->firsts == Texts{"a"});
        CHECK(request->seconds == Texts{"b", "c"});
        CHECK(request->first_of(1) == "a");
        CHECK(request->uses_activation);
    }
    const auto pairs = score(R"({"text_1": ["a", "b"], "text_2": ["c", "d"]})");
    REQUIRE(pairs);
    CHECK(pairs->first_of(1) == "b");
}

TEST_CASE("score request: fields") {
    const auto request = score(R"({"model": "m", "text_1": "a", "text_2": "b", "priority": -3,
        "truncate_prompt_tokens": -1, "max_tokens_per_doc": 7, "instruction": "Find",
        "use_activation": false, "cache_salt": "s", "user": "me", "wat": 1})");
    REQUIRE(request);
    CHECK(request->model == "m");
    CHECK(request->priority == -3);
    CHECK(request->truncate_prompt_tokens == -1);
    CHECK(request->max_second_tokens == 7);
    CHECK(request->instruction == "Find");
    CHECK(request->cache_salt == "s");
    CHECK_FALSE(request->uses_activation);
    CHECK(request->ignored == Texts{"user", "wat"});
    CHECK_FALSE(score(R"({"text_1": "a", "text_2": "b", "activation": false})")->uses_activation);
}

TEST_CASE("score request: faults name the field") {
    CHECK(field_at_fault(score("{}")) == "text_1");
    CHECK(field_at_fault(score(R"({"text_1": "a"})")) == "text_2");
    CHECK(field_at_fault(score(R"({"text_1": 5, "text_2": "b"})")) == "text_1");
    CHECK(field_at_fault(score(R"({"text_1": [], "text_2": "b"})")) == "text_1");
    CHECK(field_at_fault(score(R"({"text_1": "a", "text_2": [[1, 2]]})")) == "text_2");
    CHECK(field_at_fault(score(R"({"text_1": "a", "queries": "a", "text_2": "b"})")) == "queries");
    CHECK(field_at_fault(score(R"({"text_1": ["a", "b"], "text_2": ["c"]})")) == "text_1");
    CHECK(field_at_fault(score(R"({"text_1": "a", "text_2": ["b", "c", "d", "e"]})")) == "text_2");
    CHECK(field_at_fault(score(R"({"text_1": "a", "text_2": "b", "activation": 1})")) ==
          "activation");
    CHECK(field_at_fault(score(R"({"text_1": "a", "text_2": "b", "max_tokens_per_doc": 0})")) ==
          "max_tokens_per_doc");
    CHECK(
        field_at_fault(score(R"({"text_1": "a", "text_2": "b", "truncate_prompt_tokens": -2})")) ==
        "truncate_prompt_tokens");
    CHECK(field_at_fault(read_score_request(
              Json::parse(R"({"text_1": "a", "text_2": "b", "texts": 1})"), {.is_strict = true})) ==
          "texts");
}

TEST_CASE("rerank request: documents, and how many are wanted") {
    const auto all = rerank(R"({"query": "a", "documents": ["b", {"text": "c"}]})");
    REQUIRE(all);
    CHECK(all->texts.firsts == Texts{"a"});
    CHECK(all->texts.seconds == Texts{"b", "c"});
    CHECK(all->top_n == 2);
    CHECK(all->return_documents);
    CHECK(rerank(R"({"query": "a", "documents": ["b", "c"], "top_n": 1})")->top_n == 1);
    CHECK(rerank(R"({"query": "a", "documents": ["b", "c"], "top_n": 0})")->top_n == 2);
    CHECK(rerank(R"({"query": "a", "documents": ["b", "c"], "top_n": 9})")->top_n == 2);
    CHECK_FALSE(rerank(R"({"query": "a", "documents": ["b"], "return_documents": false})")
                    ->return_documents);
}

TEST_CASE("rerank request: faults name the field") {
    CHECK(field_at_fault(rerank("{}")) == "query");
    CHECK(field_at_fault(rerank(R"({"query": "a"})")) == "documents");
    CHECK(field_at_fault(rerank(R"({"query": ["a"], "documents": ["b"]})")) == "query");
    CHECK(field_at_fault(rerank(R"({"query": "a", "documents": "b"})")) == "documents");
    CHECK(field_at_fault(rerank(R"({"query": "a", "documents": []})")) == "documents");
    CHECK(field_at_fault(rerank(R"({"query": "a", "documents": [1]})")) == "documents");
    CHECK(field_at_fault(rerank(R"({"query": "a", "documents": ["b"], "top_n": -1})")) == "top_n");
    CHECK(field_at_fault(rerank(R"({"query": "a", "documents": ["b"], "return_documents": 1})")) ==
          "return_documents");
}

TEST_CASE("classify request: texts or token ids") {
    const auto texts = classify(R"({"input": ["a", "b"], "truncate_prompt_tokens": 5})");
    REQUIRE(texts);
    REQUIRE(texts->inputs.size() == 2);
    CHECK(std::get<std::string>(texts->inputs[1].prompt) == "b");
    CHECK(texts->inputs[1].truncate_prompt_tokens == 5);
    CHECK(std::get<std::vector<int32_t>>(classify(R"({"input": [1, 2]})")->inputs[0].prompt) ==
          std::vector<int32_t>{1, 2});
    CHECK(field_at_fault(classify("{}")) == "input");
    CHECK(field_at_fault(classify(R"({"input": "a", "priority": "x"})")) == "priority");
}
