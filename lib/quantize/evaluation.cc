// Two models in lockstep, a few rows of logits at a time.
#include "lib/quantize/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "kernels/error.h"
#include "kernels/host/cpu_placement.h"
#include "lib/base/file.h"
#include "lib/model/loader.h"
#include "lib/model/registry.h"
#include "lib/quantize/block_forward.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm::quantize {
namespace {

constexpr int64_t kScoredRowGrain = 1;
// 95 % of a normal distribution lie within so many deviations.
constexpr double kDeviations = 1.96;

std::unique_ptr<Model> load(const std::filesystem::path& directory, ThreadPool& threads) {
    ModelLoadOptions options;
    options.directory = directory;
    options.dtype = DType::f32;
    options.threads = &threads;
    return load_model(options);
}

// Keys and values are kept as they will be served.
DType cache_type(const std::filesystem::path& directory) {
    const auto quantization = read_quantization_config(directory);
    return default_kv_type(quantization ? &*quantization : nullptr, DType::f32);
}

// In place: logits to natural logarithms of probabilities.
void to_logprobs(std::span<float> row) {
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0.0;
    for (const float value : row) sum += std::exp(static_cast<double>(value) - largest);
    const double shift = largest + std::log(sum);
    for (float& value : row) value = static_cast<float>(static_cast<double>(value) - shift);
}

class TeacherAndStudent {
  public:
    TeacherAndStudent(const EvaluationOptions& options, ThreadPool& threads, int64_t longest)
        : threads_(threads),
          base_model_(load(options.base, threads)),
          model_(load(options.model, threads)),
          base_(*base_model_, threads, longest),
          other_(*model_, threads, longest, cache_type(options.model)),
          vocab_(base_model_->config().vocab_size) {
        if (model_->config().vocab_size == vocab_) return;
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: has a vocabulary of {}, the base model one of {}",
                                options.model.string(), model_->config().vocab_size, vocab_));
    }

    void compare(const Window& window, std::vector<TokenDivergence>& tokens) {
        const auto rows = static_cast<int64_t>(window.token_ids.size());
        const Tensor hidden = blocks(base_, *base_model_, window.token_ids);
        const Tensor other_hidden = blocks(other_, *model_, window.token_ids);
        for (int64_t first = static_cast<int64_t>(window.first_scored) - 1; first < rows - 1;
             first += kRows) {
            const int64_t count = std::min(kRows, rows - 1 - first);
            std::vector<float> base = logits(base_, window, hidden, first, count);
            std::vector<float> other = logits(other_, window, other_hidden, first, count);
            add_rows(window, first, count, base, other, tokens);
        }
    }

  private:
    // Rows of logits of both models at one time.
    static constexpr int64_t kRows = 64;

    Tensor blocks(BlockForward& forward, const Model& model, std::span<const int32_t> tokens) {
        Tensor hidden = Tensor::allocate(
            DType::f32, {static_cast<int64_t>(tokens.size()), model.config().hidden_size});
        forward.embed(tokens, hidden.mutable_view());
        for (int32_t index = 0; index < model.num_blocks(); ++index) {
            forward.block(index, tokens, hidden.mutable_view());
        }
        return hidden;
    }

    std::vector<float> logits(BlockForward& forward, const Window& window, const Tensor& hidden,
                              int64_t first, int64_t count) {
        std::vector<float> values;
        forward.logits(window.token_ids, hidden.mutable_view().rows(first, count),
                       [&](int64_t, const ConstTensorView& rows) {
                           const float* const begin = rows.as<float>();
                           values.insert(values.end(), begin, begin + rows.numel());
                       });
        return values;
    }

    void add_rows(const Window& window, int64_t first, int64_t count, std::vector<float>& base,
                  std::vector<float>& other, std::vector<TokenDivergence>& tokens) {
        const auto vocab = static_cast<size_t>(vocab_);
        std::vector<TokenDivergence> found(static_cast<size_t>(count));
        threads_.parallel_for(count, kScoredRowGrain, [&](int64_t begin, int64_t end, int) {
            for (auto i = static_cast<size_t>(begin); i < static_cast<size_t>(end); ++i) {
                const std::span<float> ours(other.data() + i * vocab, vocab);
                const std::span<float> theirs(base.data() + i * vocab, vocab);
                to_logprobs(ours);
                to_logprobs(theirs);
                found[i] = divergence_of(theirs, ours,
                                         window.token_ids[static_cast<size_t>(first) + i + 1]);
            }
        });
        tokens.insert(tokens.end(), found.begin(), found.end());
    }

    ThreadPool& threads_;
    std::unique_ptr<Model> base_model_;
    std::unique_ptr<Model> model_;
    BlockForward base_;
    BlockForward other_;
    int64_t vocab_;
};

std::vector<Window> windows_of(const EvaluationOptions& options, int64_t context) {
    const auto tokenizer = Tokenizer::load(options.base);
    if (tokenizer == nullptr) {
        throw Error(
            ErrorKind::not_found,
            fmt::format("{}: has no tokenizer, which an evaluation needs", options.base.string()));
    }
    const std::vector<int32_t> tokens = tokenizer->encode(read_file(options.text));
    std::vector<Window> windows =
        perplexity_windows(tokens, PerplexityConvention::hf, static_cast<int32_t>(context),
                           std::nullopt, added_bos(*tokenizer));
    if (windows.empty()) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: {} tokens are too few to evaluate with; two are the least",
                                options.text.string(), tokens.size()));
    }
    if (options.most_tokens > 0) {
        const int64_t most = std::max<int64_t>(1, options.most_tokens / (context - 1));
        if (static_cast<int64_t>(windows.size()) > most) windows.resize(static_cast<size_t>(most));
    }
    return windows;
}

}  // namespace

DivergenceReport evaluate(const EvaluationOptions& options,
                          const std::function<void(double share)>& progress) {
    ThreadPool threads(options.num_threads > 0 ? options.num_threads : default_num_threads());
    const int64_t context =
        std::min(options.context, read_model_config(options.base).max_positions);
    const std::vector<Window> windows = windows_of(options, context);
    TeacherAndStudent models(options, threads, context);
    std::vector<TokenDivergence> tokens;
    for (size_t i = 0; i < windows.size(); ++i) {
        models.compare(windows[i], tokens);
        if (progress) progress(static_cast<double>(i + 1) / static_cast<double>(windows.size()));
    }
    return summarise(tokens);
}

std::string evaluation_text(const DivergenceReport& report) {
    return fmt::format(
        "quality  perplexity {:.4f} after, {:.4f} before (hf convention, {} tokens)\n"
        "         KL divergence {:.6f} +/- {:.6f} nats a token, same top token {:.2f} %\n",
        report.perplexity, report.base_perplexity, report.num_scored, report.mean_kld,
        kDeviations * report.mean_kld_error, 100.0 * report.same_top);
}

}  // namespace nvllm::quantize
