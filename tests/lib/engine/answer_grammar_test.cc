// Grammars in an engine: what they are refused with, and answers that are held to them.
#include "lib/engine/answer_grammar.h"

#include <doctest/doctest.h>

#include <regex>

#include "lib/engine/input_processor.h"
#include "tests/lib/engine/engine_testing.h"

namespace nvllm {
namespace {

using test::Collector;

RequestInput held(const GrammarSpec& spec, int32_t max_tokens = 60) {
    RequestInput input = test::completion("Once upon a time", max_tokens);
    input.sampling.ignore_eos = false;
    input.sampling.temperature = 1.5f;
    input.sampling.seed = 7;
    input.grammar = spec;
    return input;
}

TEST_CASE("answer grammars: a model without a tokenizer or an end token takes none") {
    const GrammarSpec any{GrammarKind::json_object, ""};
    AnswerGrammars without_tokenizer(nullptr, 10, {1});
    CHECK(without_tokenizer.compile(any).fault().message.find("no tokenizer") != std::string::npos);
    const auto tokenizer = Tokenizer::load(test::source_path("models/demo-draft"));
    AnswerGrammars without_end(tokenizer, tokenizer->vocab_size(), {});
    CHECK(without_end.compile(any).fault().message.find("no end token") != std::string::npos);
}

TEST_CASE("answer grammars: answers of a request each follow the grammar, and end where it does") {
    if (!has_grammar_engine()) return;
    Engine engine(test::small_config());
    RequestInput input = held({GrammarKind::regex, "[a-f]{3}-(yes|no)"});
    input.sampling.n = 3;
    Collector answers;
    test::run(engine, input, answers);
    REQUIRE(answers.num_continuations() == 3);
    for (size_t i = 0; i < 3; ++i) {
        CAPTURE(answers.text(i));
        CHECK(std::regex_match(answers.text(i), std::regex("[a-f]{3}-(yes|no)")));
        CHECK(answers.finish(i) == FinishReason::stop);
    }
    // Beside others, which are as they are alone.
    Collector alone, beside, again;
    test::run(engine, test::completion("Two friends", 20), alone);
    auto other = engine.prepare(test::completion("Two friends", 20));
    auto same = engine.prepare(input);
    REQUIRE((other && same));
    engine.submit(std::move(*other), beside.listener());
    engine.submit(std::move(*same), again.listener());
    beside.wait();
    again.wait();
    CHECK(beside.ids() == alone.ids());
    for (size_t i = 0; i < 3; ++i) CHECK(again.ids(i) == answers.ids(i));
}

TEST_CASE("answer grammars: a text that must follow has tokens, until others have come") {
    if (!has_grammar_engine()) return;
    const auto tokenizer = Tokenizer::load(test::source_path("models/demo-draft"));
    AnswerGrammars grammars(tokenizer, tokenizer->vocab_size(), {1});
    const auto source = grammars.compile({GrammarKind::regex, "Once upon a time [ab]"});
    REQUIRE(source);
    const auto constraint = (*source)->begin();
    const std::vector<int32_t> all = constraint->forced_tokens(100);
    REQUIRE(all.size() > 3);
    CHECK(tokenizer->decode(all, false) == "Once upon a time ");
    CHECK(constraint->forced_tokens(2) == std::vector<int32_t>(all.begin(), all.begin() + 2));
    REQUIRE(constraint->accept(all[0]));
    REQUIRE(constraint->accept(all[1]));
    CHECK(constraint->forced_tokens(100) == std::vector<int32_t>(all.begin() + 2, all.end()));
    constraint->rollback(2);
    CHECK(constraint->forced_tokens(100) == all);
    // The first letter alone writes it as well.
    const std::vector<int32_t> letter = tokenizer->encode("O", {.add_special_tokens = false});
    REQUIRE(letter.size() == 1);
    REQUIRE(constraint->accept(letter[0]));
    CHECK(tokenizer->decode(constraint->forced_tokens(100), false) == "nce upon a time ");
    constraint->rollback(1);
    for (const int32_t token : all) REQUIRE(constraint->accept(token));
    CHECK(constraint->forced_tokens(100).empty());
}

TEST_CASE("answer grammars: what contradicts a grammar is refused, or fails alone") {
    if (!has_grammar_engine()) return;
    Engine engine(test::small_config());
    const GrammarSpec spec{GrammarKind::regex, "[a-z]{2}"};
    RequestInput input = held(spec);
    input.sampling.ignore_eos = true;
    CHECK(engine.prepare(input).fault().field == "ignore_eos");
    input = held(spec);
    input.sampling.use_beam_search = true;
    input.sampling.temperature = 0.0f;
    input.sampling.n = 2;
    CHECK(engine.prepare(input).fault().field == "use_beam_search");
    CHECK_FALSE(engine.prepare(held({GrammarKind::regex, "("})));
    input = held(spec);
    input.pooling = PoolingParams{};
    CHECK_FALSE(engine.prepare(input));
    input = held(spec);
    input.sampling.min_tokens = 20;
    Collector failed;
    test::run(engine, input, failed);
    CHECK(failed.finish() == FinishReason::error);
    CHECK(failed.fault()->kind == ErrorKind::bad_data);
    Collector well;
    test::run(engine, held(spec), well);
    CHECK(well.text().size() == 2);
}

}  // namespace
}  // namespace nvllm
