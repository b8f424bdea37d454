// Bytes as a grammar of any kind: compiled within the limits or refused; what its masks allow is
// accepted.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "lib/grammar/grammar_compiler.h"
#include "lib/grammar/grammar_matcher.h"
#include "tests/lib/tokenizer/small_tokenizers.h"

namespace {

using namespace nvllm;

constexpr int32_t kVocabulary = 262;
constexpr int32_t kEnd = 260;

GrammarCompiler& compiler() {
    static GrammarCompiler all = [] {
        GrammarLimits limits;
        limits.seconds = 0.3;
        limits.compiled_bytes = size_t{64} << 20;
        limits.cached_bytes = 0;
        return GrammarCompiler(test::tokenizer_of(test::byte_level_json()), kVocabulary, {kEnd},
                               limits);
    }();
    return all;
}

void demand(bool holds) {
    if (!holds) std::abort();
}

// A few tokens, chosen by `seed` of those that are allowed.
void walk(const SharedGrammar& grammar, uint32_t seed) {
    GrammarMatcher matcher(grammar);
    std::vector<uint32_t> mask((kVocabulary + 31) / 32);
    for (int step = 0; step < 12 && !matcher.has_ended(); ++step) {
        if (!matcher.fill_mask(mask)) mask.assign(mask.size(), ~0u);
        std::vector<int32_t> allowed;
        for (int32_t id = 0; id < kVocabulary; ++id)
            if ((mask[id / 32] >> (id % 32) & 1u) != 0) allowed.push_back(id);
        if (allowed.empty()) return;
        seed = seed * 1664525u + 1013904223u;
        demand(matcher.accept(allowed[(seed >> 8) % allowed.size()]));
    }
}

}  // namespace

// The first byte chooses the kind.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size < 2) return 0;
    const auto kind = static_cast<GrammarKind>(1 + data[0] % 5);
    const auto grammar =
        compiler().compile({kind, std::string(reinterpret_cast<const char*>(data) + 1, size - 1)});
    if (grammar.ok()) {
        walk(*grammar, data[0]);
    } else {
        demand(!grammar.fault().message.empty());
    }
    return 0;
}
