// Perplexity of a text: exp of the mean negative logprob of its tokens, in either of two
// conventions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace nvllm {

class Tokenizer;

enum class PerplexityConvention {
    // Windows beside each other over the text, tokenized once with its beginning token; every token
    // of a window but the first counts, a last short window does not: the custom of the GPTQ paper
    // (Frantar et al. 2023). With a stride, windows overlap and each counts only the tokens after
    // the one before it, the last short one too: the guide of transformers.
    hf,
    // Windows beside each other, each beginning with the beginning token when the tokenizer adds
    // one; the first half of a window is context and does not count: llama-perplexity.
    llama_cpp,
};

const char* convention_name(PerplexityConvention convention);  // "hf", "llama.cpp"

// Tokens to compute, and which of them count.
struct Window {
    std::vector<int32_t> token_ids;
    size_t first_scored = 1;  // the tokens from here on
};

// `bos` empty: windows begin as the text does. No window at all when the text is too short (fewer
// than two tokens; for llama.cpp fewer than `context`). REQUIRES: context >= 2.
std::vector<Window> perplexity_windows(std::span<const int32_t> tokens,
                                       PerplexityConvention convention, int32_t context,
                                       std::optional<int32_t> stride, std::optional<int32_t> bos);

// The beginning token, when the tokenizer puts one before a text.
std::optional<int32_t> added_bos(const Tokenizer& tokenizer);

struct PerplexityResult {
    double perplexity = 0.0;
    double standard_error = 0.0;  // of the perplexity, as llama-perplexity computes it
    double mean_nll = 0.0;        // nats a token
    int64_t num_scored = 0;       // tokens
    std::vector<double> running;  // perplexity of the text up to and with each window
};

// Sums in double precision in the order of the text.
class PerplexitySum {
  public:
    void add(double nll);
    PerplexityResult result() const;

  private:
    double sum_ = 0.0, sum_of_squares_ = 0.0;
    int64_t count_ = 0;
};

}  // namespace nvllm
