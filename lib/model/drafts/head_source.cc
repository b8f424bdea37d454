// Names of a target's embedding and output matrix, as its family finds them.
#include "lib/model/drafts/head_source.h"

#include <utility>

#include "lib/model/families/decoder.h"
#include "lib/model/families/llama_blocks.h"

namespace nvllm {

std::unique_ptr<CheckpointSource> open_head_source(const std::filesystem::path& directory,
                                                   DType compute_type, ThreadPool& threads,
                                                   const ComputeDevice& device, CheckpointUse use) {
    auto source = std::make_unique<CheckpointSource>(Checkpoint::open(directory), compute_type,
                                                     threads, use, device);
    if (auto found = read_quantization_config(directory)) {
        source->set_quantization(std::make_shared<const QuantizationConfig>(*std::move(found)));
    }
    return source;
}

TargetVocabulary load_target_vocabulary(WeightSource& source, const ModelConfig& target) {
    const std::string prefix = body_prefix(source, kLlamaMarks, target.hidden_size);
    const VocabularyNames names =
        vocabulary_names(source, target, prefix, prefix + std::string(kLlamaMarks.table));
    DecoderParts parts;
    parts.token_embedding =
        load_table(source, names.embedding, target.vocab_size, target.hidden_size);
    load_head(source, target, names, parts);
    return {std::move(parts.token_embedding), std::move(parts.head)};
}

}  // namespace nvllm
