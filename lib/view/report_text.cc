// A model report for people.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/base/units.h"
#include "lib/view/model_report.h"
#include "lib/view/special_tokens.h"
#include "lib/view/text_table.h"

namespace nvllm::view {
namespace {

constexpr size_t kSpecialTokensShown = 12;
constexpr size_t kFilesShown = 8;

std::optional<int64_t> bits_of(const ModelReport& report) {
    return report.quantization ? report.quantization->bits : std::nullopt;
}

// "1 to 16", or "4 of 26 layers": which layers have a window.
std::string describe_windows(const ModelConfig& config) {
    const auto windowed =
        std::ranges::count_if(config.layer_windows, [](int64_t w) { return w > 0; });
    if (config.sliding_window == 0 || windowed == 0) return "none";
    if (windowed == config.num_layers) {
        return fmt::format("{} positions, all layers", config.sliding_window);
    }
    return fmt::format("{} positions, {} of {} layers", config.sliding_window, windowed,
                       config.num_layers);
}

std::string describe_rope(const ModelConfig& config) {
    if (config.learned_positions) return "none (learned positions)";
    const std::vector<bool>& rotated = config.rotated_layers;
    if (!rotated.empty() && std::ranges::count(rotated, true) == 0) return "none";
    std::string text = fmt::format("{}, theta {}", config.rope.kind, config.rope.theta);
    if (config.rope.kind != "default") text += fmt::format(", factor {}", config.rope.factor);
    if (config.rope.partial_rotary_factor != 1.0) {
        text += fmt::format(", {} of each head", config.rope.partial_rotary_factor);
    }
    if (config.sliding_rope) {
        text += fmt::format("; layers with a window: theta {}", config.sliding_rope->theta);
    }
    return text;
}

void add_quantization(const QuantizationReport& quantization, TextSheet& sheet) {
    std::string text = quantization.method.empty() ? "yes" : quantization.method;
    if (quantization.bits) text += fmt::format(", {} bits", *quantization.bits);
    if (quantization.group_size) text += fmt::format(", groups of {}", *quantization.group_size);
    sheet.row("quantization", text);
    if (quantization.linears) {
        sheet.row("", fmt::format("{} linears multiplied as they are stored, {} widened",
                                  quantization.linears->native, quantization.linears->widened));
    }
}

std::string describe_vocabulary(const ModelConfig& config) {
    const char* embeddings = !config.generates            ? "input embeddings only"
                             : config.tie_word_embeddings ? "tied embeddings"
                                                          : "separate input and output embeddings";
    return fmt::format("{}, {}", with_separators(config.vocab_size), embeddings);
}

// What comes out, where it is not text.
void add_purpose(const ModelConfig& config, TextSheet& sheet) {
    if (config.generates) return;
    sheet.row("makes", fmt::format("embeddings of {} values and no text; attention {}",
                                   config.hidden_size, config.encoder ? "both ways" : "causal"));
}

// Files of families that are not supported may say sizes in other ways.
std::string size_text(int64_t size) { return size > 0 ? std::to_string(size) : "unknown"; }

std::string describe_heads(const ModelConfig& config) {
    if (config.latent_attention) {
        const LatentAttentionConfig& latent = *config.latent_attention;
        return fmt::format(
            "{}, of {} ({} rotated) and values of {}; latent attention caches {} values a token",
            config.num_heads, latent.query_dim(), latent.rope_dim, latent.value_dim,
            latent.cached());
    }
    if (config.num_heads == 0 && config.linear_attention) return "none: no layer has attention";
    return fmt::format("{}, of {}; {} for keys and values", size_text(config.num_heads),
                       size_text(config.head_dim), size_text(config.num_kv_heads));
}

const char* name_of(StateLayerKind kind) {
    switch (kind) {
        case StateLayerKind::none:
            break;
        case StateLayerKind::delta_net:
            return "gated delta rule";
        case StateLayerKind::kimi_delta:
            return "Kimi delta attention";
        case StateLayerKind::mamba2:
            return "Mamba-2";
        case StateLayerKind::short_conv:
            return "short convolution";
    }
    return "none";
}

std::string describe_state_layers(const LinearAttentionConfig& linear) {
    std::string text = fmt::format("{} in {} layers, {} taps", name_of(linear.kind),
                                   std::ranges::count(linear.layers, true), linear.conv_taps);
    if (linear.kind == StateLayerKind::short_conv) return text;
    return text + fmt::format("; {} heads of {}, {} of keys of {}", linear.value_heads,
                              linear.value_dim, linear.key_heads, linear.key_dim);
}

void add_shape(const ModelConfig& config, TextSheet& sheet) {
    sheet.row("layers", size_text(config.num_layers));
    sheet.row("hidden", fmt::format("{}, feed-forward {} ({})", size_text(config.hidden_size),
                                    size_text(config.intermediate_size), config.activation));
    sheet.row("heads", describe_heads(config));
    if (config.linear_attention) {
        sheet.row("states", describe_state_layers(*config.linear_attention));
    }
    if (config.num_experts > 0) {
        sheet.row("experts",
                  fmt::format("{}, {} a token, feed-forward {}, in {} layers", config.num_experts,
                              config.experts_per_token, config.expert_intermediate_size,
                              std::ranges::count(config.sparse_layers, true)));
    }
    sheet.row("window", describe_windows(config));
    sheet.row("rope", describe_rope(config));
    sheet.row("context", with_separators(config.max_positions));
    sheet.row("vocabulary", describe_vocabulary(config));
    sheet.row("dtype", dtype_name(config.dtype));
}

std::string describe_states(const DraftHeadConfig& head) {
    if (!head.fuses()) return "the target's last state, behind its final norm";
    const std::string fused =
        fmt::format("{} states of {} values fused to {}", head.num_aux_hidden_states,
                    head.target_hidden_size, head.block.hidden_size);
    if (head.aux_layer_ids.empty()) {
        return "the target's states after 2, half and all but 3 of its layers; " + fused;
    }
    return fmt::format("the target's states at layers {}; {}", fmt::join(head.aux_layer_ids, ", "),
                       fused);
}

// What a head takes from its target and gives it.
void add_draft_head(const DraftHeadConfig& head, TextSheet& sheet) {
    sheet.row("method", fmt::format("{} ({})", draft_method_name(head.method), head.layout.name));
    sheet.row("reads", describe_states(head));
    if (!head.aux_layer_ids.empty()) {
        sheet.row("",
                  "an id counts the layers before the state (vLLM), or names the layer that "
                  "the state is behind (SGLang); the file does not say which");
    }
    sheet.row("proposes",
              fmt::format("{} of the target's {} tokens", with_separators(head.draft_vocab_size),
                          with_separators(head.block.vocab_size)));
    sheet.row("target", fmt::format("hidden size {}, vocabulary {}{}", head.target_hidden_size,
                                    with_separators(head.block.vocab_size),
                                    head.target.empty() ? "" : "; named " + head.target));
    sheet.row("embeddings", head.has_own_embedding ? "its own" : "the target's");
    sheet.row("output matrix", head.has_own_head() ? "its own" : "the target's");
}

void add_config(const ModelReport& report, TextSheet& sheet) {
    const ModelConfig& config = *report.config;
    sheet.row("architecture", config.model_type.empty()
                                  ? config.architecture
                                  : fmt::format("{} ({})", config.architecture, config.model_type));
    if (config.text_architecture != config.architecture && !config.text_architecture.empty()) {
        sheet.row("computed as", config.text_architecture);
    }
    sheet.row("supported", report.obstacle.empty() ? "yes" : "no: " + report.obstacle);
    if (report.draft_head) {
        add_draft_head(*report.draft_head, sheet);
    } else {
        add_purpose(config, sheet);
    }
    if (!report.next_token_layout.empty()) {
        sheet.row("drafts", report.next_token_layout + ", with --speculative-method mtp");
    }
    if (report.quantization) add_quantization(*report.quantization, sheet);
    add_shape(config, sheet);
}

void add_totals(const char* heading, std::span<const TensorTotal> totals, TextSheet& sheet) {
    const auto all = static_cast<double>(std::max<int64_t>(total_of(totals).parameters, 1));
    std::vector<std::vector<std::string>> rows = {{heading, "tensors", "parameters", "", "bytes"}};
    for (const TensorTotal& total : totals) {
        const double share = 100.0 * static_cast<double>(total.parameters) / all;
        rows.push_back({total.name, with_separators(total.tensors),
                        with_separators(total.parameters), fmt::format("{:.1f} %", share),
                        describe_bytes(total.bytes)});
    }
    sheet.gap();
    sheet.table(rows, "<>>>>");
}

void add_files(const ModelReport& report, TextSheet& sheet) {
    std::vector<std::vector<std::string>> rows = {{"file", "bytes", ""}};
    for (const WeightFile& file : report.weight_files) {
        if (rows.size() > kFilesShown) break;
        rows.push_back({file.name, with_separators(static_cast<int64_t>(file.bytes)),
                        describe_bytes(file.bytes)});
    }
    if (report.weight_files.empty()) return;
    sheet.gap();
    sheet.table(rows, "<>>");
    if (report.weight_files.size() > kFilesShown) {
        sheet.line(fmt::format("  ... and {} more", report.weight_files.size() - kFilesShown));
    }
}

void add_weights(const ModelReport& report, TextSheet& sheet) {
    const auto components = totals_by_component(report.tensors, bits_of(report));
    const TensorTotal total = total_of(components);
    sheet.row("parameters", total.parameters < 1'000'000
                                ? with_separators(total.parameters)
                                : fmt::format("{} ({})", describe_count(total.parameters),
                                              with_separators(total.parameters)));
    sheet.row("weights", fmt::format("{} in {} tensors{}", describe_bytes(total.bytes),
                                     with_separators(total.tensors),
                                     report.from_meta ? ", as config.json implies" : ""));
    for (const auto& [key, value] : report.metadata) sheet.row("metadata", key + ": " + value);
    add_totals("component", components, sheet);
    add_totals("dtype", totals_by_dtype(report.tensors, bits_of(report)), sheet);
    add_files(report, sheet);
}

void add_special_tokens(const Tokenizer& tokenizer, TextSheet& sheet) {
    const std::vector<SpecialToken> tokens = special_tokens(tokenizer);
    std::vector<std::string> shown;
    for (const SpecialToken& token : tokens) {
        // Those with a part to play are always shown.
        if (shown.size() >= kSpecialTokensShown && token.role.empty()) continue;
        shown.push_back(fmt::format("{} {}{}", token.id, token.text,
                                    token.role.empty() ? "" : " (" + token.role + ")"));
    }
    std::string text = fmt::format("{}", fmt::join(shown, ", "));
    if (tokens.size() > shown.size()) {
        text += fmt::format(" and {} more", tokens.size() - shown.size());
    }
    sheet.row("special tokens", tokens.empty() ? "none" : text);
}

void add_tokenizer(const ModelReport& report, TextSheet& sheet) {
    const Tokenizer& tokenizer = *report.tokenizer;
    sheet.row("tokenizer",
              fmt::format("{} ({}), {} tokens", tokenizer.algorithm(),
                          std::filesystem::path(tokenizer.file_name()).filename().string(),
                          with_separators(tokenizer.vocab_size())));
    add_special_tokens(tokenizer, sheet);
    for (const ChatTemplateReport& row : report.chat_templates) {
        sheet.row("chat template",
                  fmt::format("{}, {} bytes, {}", row.name,
                              with_separators(static_cast<int64_t>(row.bytes)),
                              row.fault.empty() ? "parses" : "broken: " + row.fault));
    }
    // A tokenizer's file alone does not tell.
    const bool tells = report.kind == "model";
    if (tells && report.chat_templates.empty()) sheet.row("chat template", "none");
}

template <typename T>
void add_default(const char* name, const std::optional<T>& value, std::vector<std::string>& parts) {
    if (value) parts.push_back(fmt::format("{} {}", name, *value));
}

void add_generation(const GenerationConfig& generation, TextSheet& sheet) {
    std::vector<std::string> parts;
    add_default("do_sample", generation.do_sample, parts);
    add_default("temperature", generation.temperature, parts);
    add_default("top_k", generation.top_k, parts);
    add_default("top_p", generation.top_p, parts);
    add_default("min_p", generation.min_p, parts);
    add_default("repetition_penalty", generation.repetition_penalty, parts);
    add_default("max_new_tokens", generation.max_new_tokens, parts);
    if (!generation.eos_token_ids.empty()) {
        parts.push_back(fmt::format("ends at {}", fmt::join(generation.eos_token_ids, " ")));
    }
    sheet.row("generation",
              parts.empty() ? "no defaults" : fmt::format("{}", fmt::join(parts, ", ")));
}

void add_tensors(std::span<const ListedTensor> tensors, TextSheet& sheet) {
    std::vector<std::vector<std::string>> rows = {{"tensor", "type", "bytes", "file"}};
    for (const ListedTensor& tensor : tensors) {
        rows.push_back({tensor.name, tensor.describe(),
                        with_separators(static_cast<int64_t>(tensor.bytes)), tensor.file});
    }
    sheet.gap();
    sheet.table(rows, "<<><");
}

}  // namespace

std::string report_text(const ModelReport& report, bool with_tensors) {
    TextSheet sheet;
    sheet.row(report.kind, report.path.string());
    if (report.config) add_config(report, sheet);
    if (!report.tensors.empty() || !report.weight_files.empty()) {
        add_weights(report, sheet);
    } else if (report.config) {
        sheet.row("parameters", fmt::format("about {}, by the sizes above",
                                            describe_count(report.estimated_parameters)));
    }
    if (!report.tensors.empty()) sheet.gap();
    if (report.tokenizer) add_tokenizer(report, sheet);
    if (report.generation) add_generation(*report.generation, sheet);
    if (report.kind == "model" && !report.tokenizer) sheet.row("tokenizer", "none");
    for (const std::string& note : report.notes) sheet.row("note", note);
    if (with_tensors) add_tensors(report.tensors, sheet);
    return sheet.text();
}

}  // namespace nvllm::view
