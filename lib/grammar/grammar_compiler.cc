// Keeps what was compiled, by content; compiles equal specs once, also when they come at the same
// time.
#include "lib/grammar/grammar_compiler.h"

#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "lib/base/units.h"
#include "lib/grammar/grammar_engine.h"

namespace nvllm {
namespace {

std::string key_of(const GrammarSpec& spec) {
    return std::to_string(static_cast<int>(spec.kind)) + ":" + spec.text;
}

// One compilation that several may wait for.
struct Compilation {
    std::optional<Result<SharedGrammar>> result;
};

struct Kept {
    std::string key;
    SharedGrammar grammar;
    size_t bytes = 0;
};

}  // namespace

struct GrammarCompiler::State {
    State(std::shared_ptr<const Tokenizer> tokenizer, int32_t vocab_size,
          std::vector<int32_t> end_tokens, GrammarLimits given)
        : engine(std::move(tokenizer), vocab_size, std::move(end_tokens)), limits(given) {}

    // Under the mutex.
    void keep(const std::string& key, const SharedGrammar& grammar) {
        const size_t bytes = GrammarEngine::bytes_of(*grammar) + key.size();
        if (bytes > limits.cached_bytes) return;
        kept.push_front({key, grammar, bytes});
        by_key[key] = kept.begin();
        kept_bytes += bytes;
        while (kept_bytes > limits.cached_bytes) {
            kept_bytes -= kept.back().bytes;
            by_key.erase(kept.back().key);
            kept.pop_back();
        }
    }

    SharedGrammar find(const std::string& key) {
        const auto found = by_key.find(key);
        if (found == by_key.end()) return nullptr;
        kept.splice(kept.begin(), kept, found->second);
        return found->second->grammar;
    }

    GrammarEngine engine;
    GrammarLimits limits;
    std::mutex mutex;
    std::condition_variable compiled;
    std::list<Kept> kept;  // the most recently used first
    std::unordered_map<std::string, std::list<Kept>::iterator> by_key;
    size_t kept_bytes = 0;
    std::unordered_map<std::string, std::shared_ptr<Compilation>> under_way;
};

GrammarCompiler::GrammarCompiler(std::shared_ptr<const Tokenizer> tokenizer, int32_t vocab_size,
                                 std::vector<int32_t> end_tokens, GrammarLimits limits)
    : state_(std::make_unique<State>(std::move(tokenizer), vocab_size, std::move(end_tokens),
                                     limits)) {}

GrammarCompiler::~GrammarCompiler() = default;

Result<SharedGrammar> GrammarCompiler::compile(const GrammarSpec& spec) {
    State& state = *state_;
    if (spec.text.size() > state.limits.text_bytes) {
        return Fault{ErrorKind::bad_data,
                     "the grammar has " + describe_bytes(spec.text.size()) + "; at most " +
                         describe_bytes(state.limits.text_bytes) + " are allowed"};
    }
    const std::string key = key_of(spec);
    std::unique_lock lock(state.mutex);
    if (SharedGrammar grammar = state.find(key)) return grammar;
    if (const auto found = state.under_way.find(key); found != state.under_way.end()) {
        const std::shared_ptr<Compilation> other = found->second;
        state.compiled.wait(lock, [&] { return other->result.has_value(); });
        return *other->result;
    }
    const auto mine = std::make_shared<Compilation>();
    state.under_way[key] = mine;
    lock.unlock();
    Result<SharedGrammar> result = state.engine.compile(spec, state.limits);
    lock.lock();
    if (result.ok()) state.keep(key, *result);
    mine->result = result;
    state.under_way.erase(key);
    lock.unlock();
    state.compiled.notify_all();
    return result;
}

}  // namespace nvllm
