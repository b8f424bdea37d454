// A build without a grammar engine (NVLLM_GRAMMAR=OFF): every grammar is refused.
#include "lib/grammar/grammar_engine.h"
#include "lib/grammar/grammar_matcher.h"

namespace nvllm {

class CompiledGrammar {};
struct GrammarEngine::State {};
struct GrammarMatcher::State {};

bool has_grammar_engine() { return false; }

GrammarEngine::GrammarEngine(std::shared_ptr<const Tokenizer>, int32_t, std::vector<int32_t>) {}
GrammarEngine::~GrammarEngine() = default;
Result<SharedGrammar> GrammarEngine::compile(const GrammarSpec&, const GrammarLimits&) {
    return Fault{ErrorKind::unavailable,
                 "this build of nanovllm has no structured output (it was made with "
                 "NVLLM_GRAMMAR=OFF)"};
}
size_t GrammarEngine::bytes_of(const CompiledGrammar&) { return 0; }

// No CompiledGrammar is ever made, so that none of these is called.
GrammarMatcher::GrammarMatcher(SharedGrammar) {}
GrammarMatcher::GrammarMatcher(const GrammarMatcher&) {}
GrammarMatcher::GrammarMatcher(GrammarMatcher&&) noexcept = default;
GrammarMatcher& GrammarMatcher::operator=(GrammarMatcher other) noexcept {
    state_.swap(other.state_);
    return *this;
}
GrammarMatcher::~GrammarMatcher() = default;
bool GrammarMatcher::fill_mask(std::span<uint32_t>) { return false; }
bool GrammarMatcher::accept(int32_t) { return false; }
bool GrammarMatcher::accept_text(std::string_view) { return false; }
void GrammarMatcher::rollback(int32_t) {}
std::string GrammarMatcher::forced_text() { return {}; }
bool GrammarMatcher::may_end() const { return false; }
bool GrammarMatcher::has_ended() const { return true; }

}  // namespace nvllm
