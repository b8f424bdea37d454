#include "lib/grammar/grammar_matcher.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "kernels/error.h"
#include "lib/base/utf8.h"
#include "lib/grammar/engine/compiled_grammar.h"
#include "lib/grammar/engine/engine_watch.h"

namespace nvllm {
namespace {

// For one mask or one token: grammars that can be read in very many ways take ever longer.
constexpr double kStepSeconds = 1.0;

}  // namespace

struct GrammarMatcher::State {
    explicit State(SharedGrammar given)
        : grammar(std::move(given)), matcher(grammar->compiled), whitespace(grammar->whitespace) {}
    State(const State& other)
        : grammar(other.grammar),
          matcher(other.matcher.Fork()),
          whitespace(other.whitespace),
          broken(other.broken) {}
    State& operator=(const State&) = delete;

    // Calls it within the limit of time. False, and the position is lost for good, when the engine
    // gave up.
    template <typename Function>
    bool run(Function&& function) {
        if (broken) return false;
        try {
            const EngineWatch watch(thread_time_in(kStepSeconds), kStepSeconds, SIZE_MAX);
            function();
            return true;
        } catch (const EngineLimit&) {
        } catch (const std::exception&) {
        }
        broken = true;
        return false;
    }

    // Not restricted: the mask was left alone. False: the engine gave up.
    bool fill_mask(std::span<uint32_t> mask, bool& restricted) {
        return run([&] {
            int64_t shape = static_cast<int64_t>(mask.size());
            int64_t stride = 1;
            DLTensor tensor{mask.data(), {kDLCPU, 0}, 1, xgrammar::GetBitmaskDLType(),
                            &shape,      &stride,     0};
            restricted = matcher.FillNextTokenBitmask(&tensor);
        });
    }

    SharedGrammar grammar;
    xgrammar::GrammarMatcher matcher;
    WhitespaceRun whitespace;
    std::string key = {};  // of the position whose mask was asked for last
    bool broken = false;   // nothing may come
};

GrammarMatcher::GrammarMatcher(SharedGrammar grammar)
    : state_(std::make_unique<State>(std::move(grammar))) {}
GrammarMatcher::GrammarMatcher(const GrammarMatcher& other)
    : state_(std::make_unique<State>(*other.state_)) {}
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher other) noexcept {
    state_.swap(other.state_);
    return *this;
}
GrammarMatcher::~GrammarMatcher() = default;

bool GrammarMatcher::fill_mask(std::span<uint32_t> mask) {
    State& state = *state_;
    NVLLM_CHECK(
        mask.size() == static_cast<size_t>(xgrammar::GetBitmaskSize(state.grammar->vocab_size)),
        "a token mask has one bit for each token");
    if (has_ended() || state.broken) {
        std::fill(mask.begin(), mask.end(), 0u);
        return true;
    }
    const CompiledGrammar& grammar = *state.grammar;
    const bool has_key = state.matcher.GetPositionKey(&state.key, MaskCache::kLongestKey);
    state.key.append(reinterpret_cast<const char*>(&grammar.id), sizeof(grammar.id));
    bool restricted = true;
    if (!has_key || !grammar.masks->find(state.key, mask)) {
        if (!state.fill_mask(mask, restricted)) std::fill(mask.begin(), mask.end(), 0u);
        if (has_key && restricted && !state.broken) grammar.masks->keep(state.key, mask);
    }
    if (restricted) state.whitespace.limit(mask);
    return restricted;
}

bool GrammarMatcher::accept(int32_t token) {
    if (has_ended()) return false;
    bool accepted = false;
    state_->run([&] { accepted = state_->matcher.AcceptToken(token); });
    if (accepted) state_->whitespace.accept(token);
    return accepted;
}

bool GrammarMatcher::accept_text(std::string_view text) {
    if (has_ended()) return text.empty();
    bool accepted = false;
    state_->run([&] { accepted = state_->matcher.AcceptString(std::string(text)); });
    if (accepted) state_->whitespace.accept_text();
    return accepted;
}

void GrammarMatcher::rollback(int32_t tokens) {
    if (tokens <= 0) return;
    state_->run([&] { state_->matcher.Rollback(tokens); });
    state_->whitespace.rollback(tokens);
}

std::string GrammarMatcher::forced_text() {
    if (has_ended()) return {};
    std::string text;
    state_->run([&] { text = state_->matcher.FindJumpForwardString(); });
    text.resize(text.size() - utf8::incomplete_suffix(text));
    return text;
}

bool GrammarMatcher::may_end() const {
    return !state_->broken && !has_ended() && state_->matcher.IsCompleted();
}

bool GrammarMatcher::has_ended() const { return state_->matcher.IsTerminated(); }

}  // namespace nvllm
