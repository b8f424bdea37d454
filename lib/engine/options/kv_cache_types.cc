// The table of words.
#include "lib/engine/options/kv_cache_types.h"

#include <array>
#include <string_view>

namespace nvllm {
namespace {

struct KvTypeRow {
    std::string_view word;
    DType dtype;
};

// fp8 and fp8_e4m3 are vLLM's words, the short ones those of --dtype.
constexpr std::array<KvTypeRow, 9> kTypes = {{{"float32", DType::f32},
                                              {"bfloat16", DType::bf16},
                                              {"float16", DType::f16},
                                              {"fp8", DType::f8_e4m3},
                                              {"fp8_e4m3", DType::f8_e4m3},
                                              {"int8", DType::i8},
                                              {"fp32", DType::f32},
                                              {"bf16", DType::bf16},
                                              {"fp16", DType::f16}}};

}  // namespace

std::optional<DType> kv_cache_type(const std::string& word) {
    for (const KvTypeRow& row : kTypes) {
        if (row.word == word) return row.dtype;
    }
    return std::nullopt;
}

std::vector<std::string> kv_cache_words() {
    std::vector<std::string> words{"auto"};
    for (const KvTypeRow& row : kTypes) words.emplace_back(row.word);
    return words;
}

}  // namespace nvllm
