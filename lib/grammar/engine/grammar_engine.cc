// Compiles specs with xgrammar, against the tokens of one model.
#include "lib/grammar/grammar_engine.h"

#include <xgrammar/xgrammar.h>

#include <algorithm>
#include <exception>
#include <mutex>
#include <optional>
#include <string>

#include "lib/grammar/ebnf.h"
#include "lib/grammar/engine/compiled_grammar.h"
#include "lib/grammar/engine/engine_watch.h"
#include "lib/grammar/schema/pattern.h"
#include "lib/grammar/schema_check.h"
#include "lib/grammar/structural_tag.h"
#include "lib/grammar/thread_time.h"

namespace nvllm {
namespace {

// What special tokens are to a grammar.
enum class SpecialTokens {
    absent,     // they never come: what they would write is dropped from an answer
    unwritten,  // structural tags name them by number, and no text is written with them
    text,       // they may write their spelling, which a structural tag has as text
};
constexpr size_t kTables = 3;

// No text in UTF-8 has this byte.
constexpr char kNoText = '\xFF';

const char* name_of(GrammarKind kind) {
    switch (kind) {
        case GrammarKind::json_object:
            return "the JSON object";
        case GrammarKind::json_schema:
            return "the JSON schema";
        case GrammarKind::regex:
            return "the regular expression";
        case GrammarKind::choice:
            return "the choice";
        case GrammarKind::grammar:
            return "the grammar";
        case GrammarKind::structural_tag:
            return "the structural tag";
    }
    return "the grammar";
}

// What is handed to xgrammar.
struct EngineText {
    GrammarKind kind = GrammarKind::grammar;  // json_schema, regex, grammar or structural_tag
    std::string text = {};
    SpecialTokens special = SpecialTokens::absent;
};

Result<EngineText> schema_text(std::string_view schema, ThreadTime end) {
    auto checked = checked_schema(schema, end);
    if (!checked.ok()) return checked.fault();
    return EngineText{GrammarKind::json_schema, std::move(*checked)};
}

Result<EngineText> regex_text(std::string_view regex) {
    auto pattern = engine_pattern(regex, PatternUse::whole);
    if (!pattern.ok()) return pattern.fault();
    return EngineText{GrammarKind::regex, std::move(*pattern)};
}

Result<EngineText> ebnf_text(Result<std::string> ebnf) {
    if (!ebnf.ok()) return ebnf.fault();
    return EngineText{GrammarKind::grammar, std::move(*ebnf)};
}

Result<EngineText> tag_text(std::string_view text, const Tokenizer& tokenizer, ThreadTime end) {
    auto tag = checked_structural_tag(text, tokenizer, end);
    if (!tag.ok()) return tag.fault();
    const auto special =
        tag->spells_special_tokens ? SpecialTokens::text : SpecialTokens::unwritten;
    return EngineText{GrammarKind::structural_tag, std::move(tag->text), special};
}

Result<EngineText> engine_text(const GrammarSpec& spec, const Tokenizer& tokenizer,
                               ThreadTime end) {
    switch (spec.kind) {
        case GrammarKind::json_object:
            return schema_text(R"({"type": "object"})", end);
        case GrammarKind::json_schema:
            return schema_text(spec.text, end);
        case GrammarKind::regex:
            return regex_text(spec.text);
        case GrammarKind::choice:
            return ebnf_text(ebnf_of_choice(spec.text));
        case GrammarKind::grammar:
            return ebnf_text(ebnf_of_grammar(spec.text));
        case GrammarKind::structural_tag:
            return tag_text(spec.text, tokenizer, end);
    }
    return Fault{ErrorKind::internal, "no such kind of grammar"};
}

xgrammar::CompiledGrammar compile_text(xgrammar::GrammarCompiler& compiler,
                                       const EngineText& given) {
    constexpr bool kAnyWhitespace = true;
    // What a schema does not mention it allows, as the standard says.
    constexpr bool kStrict = false;
    switch (given.kind) {
        case GrammarKind::json_schema:
            return compiler.CompileJSONSchema(given.text, kAnyWhitespace, std::nullopt,
                                              std::nullopt, kStrict);
        case GrammarKind::regex:
            return compiler.CompileRegex(given.text);
        case GrammarKind::structural_tag:
            return compiler.CompileStructuralTag(given.text);
        default:
            return compiler.CompileGrammar(given.text);
    }
}

// One line of what the engine says.
std::string tidy(std::string_view text) {
    std::string line;
    for (const char c : text) line += c == '\n' ? ' ' : c;
    while (!line.empty() && line.back() == ' ') line.pop_back();
    return line;
}

}  // namespace

struct GrammarEngine::State {
    std::string token_text(int32_t id, SpecialTokens special) const {
        if (!tokenizer->is_special(id)) return tokenizer->token_bytes(id);
        if (special == SpecialTokens::absent) return {};
        const std::string text = tokenizer->token_bytes(id);
        return special == SpecialTokens::text || text.empty() ? text : kNoText + text + kNoText;
    }

    // Made when it is first needed: a tenth of a second for a large vocabulary.
    xgrammar::GrammarCompiler& compiler(SpecialTokens special) {
        const auto which = static_cast<size_t>(special);
        std::call_once(once[which], [&] {
            std::vector<std::string> tokens(
                static_cast<size_t>(std::min(vocab_size, tokenizer->vocab_size())));
            for (size_t id = 0; id < tokens.size(); ++id)
                tokens[id] = token_text(static_cast<int32_t>(id), special);
            const xgrammar::TokenizerInfo info(tokens, xgrammar::VocabType::RAW, vocab_size,
                                               end_tokens);
            // On this thread, and without a cache: GrammarCompiler has one.
            compilers[which].emplace(info, 1, false);
        });
        return *compilers[which];
    }

    // Null for what is no JSON.
    std::shared_ptr<const WhitespaceTokens> whitespace(GrammarKind kind) {
        if (kind != GrammarKind::json_schema && kind != GrammarKind::structural_tag) return nullptr;
        std::call_once(whitespace_once, [&] {
            whitespace_tokens = std::make_shared<WhitespaceTokens>(*tokenizer, vocab_size);
        });
        return whitespace_tokens;
    }

    std::shared_ptr<const Tokenizer> tokenizer;
    int32_t vocab_size = 0;
    std::vector<int32_t> end_tokens;
    std::once_flag once[kTables];
    std::once_flag whitespace_once;
    std::shared_ptr<const WhitespaceTokens> whitespace_tokens;
    std::optional<xgrammar::GrammarCompiler> compilers[kTables];
    std::shared_ptr<MaskCache> masks = std::make_shared<MaskCache>();
};

GrammarEngine::GrammarEngine(std::shared_ptr<const Tokenizer> tokenizer, int32_t vocab_size,
                             std::vector<int32_t> end_tokens)
    : state_(std::make_unique<State>()) {
    std::erase_if(end_tokens, [&](int32_t id) { return id < 0 || id >= vocab_size; });
    state_->tokenizer = std::move(tokenizer);
    state_->vocab_size = vocab_size;
    state_->end_tokens = std::move(end_tokens);
}

GrammarEngine::~GrammarEngine() = default;

Result<SharedGrammar> GrammarEngine::compile(const GrammarSpec& spec, const GrammarLimits& limits) {
    const std::string name = name_of(spec.kind);
    const ThreadTime end = thread_time_in(limits.seconds);
    auto given = engine_text(spec, *state_->tokenizer, end);
    if (!given.ok()) return given.fault();
    const ThreadTime left = end - thread_time();
    try {
        xgrammar::GrammarCompiler& compiler = state_->compiler(given->special);
        const EngineWatch watch(thread_time() + left, limits.seconds, limits.compiled_bytes);
        return std::make_shared<const CompiledGrammar>(
            compile_text(compiler, *given), state_->vocab_size, state_->whitespace(given->kind),
            state_->masks);
    } catch (const EngineLimit& limit) {
        return Fault{ErrorKind::bad_data,
                     name + " is too large to compile: " + limit.reason + "; simplify it"};
    } catch (const std::bad_alloc&) {
        return Fault{ErrorKind::does_not_fit, "no memory left to compile " + name};
    } catch (const std::exception& error) {
        return Fault{ErrorKind::bad_data, name + " cannot be used: " + tidy(error.what())};
    }
}

size_t GrammarEngine::bytes_of(const CompiledGrammar& grammar) {
    return grammar.compiled.MemorySizeBytes();
}

bool has_grammar_engine() { return true; }

}  // namespace nvllm
