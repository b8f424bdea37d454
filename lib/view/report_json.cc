// A model report as JSON.
#include <nlohmann/json.hpp>

#include "lib/view/model_report.h"
#include "lib/view/special_tokens.h"

namespace nvllm::view {
namespace {

using Json = nlohmann::ordered_json;

template <typename T>
Json optional_json(const std::optional<T>& value) {
    return value ? Json(*value) : Json(nullptr);
}

Json rope_json(const RopeConfig& rope) {
    Json json = {{"kind", rope.kind},
                 {"theta", rope.theta},
                 {"factor", rope.factor},
                 {"partial_rotary_factor", rope.partial_rotary_factor}};
    if (rope.original_max_positions > 0) {
        json["original_max_positions"] = rope.original_max_positions;
    }
    return json;
}

Json shape_json(const ModelConfig& config) {
    Json json = {{"vocab_size", config.vocab_size},
                 {"hidden_size", config.hidden_size},
                 {"intermediate_size", config.intermediate_size},
                 {"num_layers", config.num_layers},
                 {"num_heads", config.num_heads},
                 {"num_kv_heads", config.num_kv_heads},
                 {"head_dim", config.head_dim},
                 {"max_positions", config.max_positions},
                 {"sliding_window", config.sliding_window},
                 {"layer_windows", config.layer_windows},
                 {"activation", config.activation},
                 {"encoder", config.encoder},
                 {"generates", config.generates},
                 {"tied_embeddings", config.tie_word_embeddings},
                 {"dtype", dtype_name(config.dtype)},
                 {"rope", rope_json(config.rope)}};
    if (config.sliding_rope) json["sliding_rope"] = rope_json(*config.sliding_rope);
    if (config.latent_attention) {
        const LatentAttentionConfig& latent = *config.latent_attention;
        json["latent_attention"] = {{"query_rank", latent.query_rank},
                                    {"latent_dim", latent.latent_dim},
                                    {"plain_dim", latent.plain_dim},
                                    {"rope_dim", latent.rope_dim},
                                    {"value_dim", latent.value_dim}};
    }
    if (config.num_experts > 0) {
        json["num_experts"] = config.num_experts;
        json["experts_per_token"] = config.experts_per_token;
        json["expert_intermediate_size"] = config.expert_intermediate_size;
    }
    json["eos_token_ids"] = config.eos_token_ids;
    json["bos_token_id"] = optional_json(config.bos_token_id);
    return json;
}

Json totals_json(std::span<const TensorTotal> totals) {
    Json json = Json::object();
    for (const TensorTotal& total : totals) {
        json[total.name] = {
            {"tensors", total.tensors}, {"parameters", total.parameters}, {"bytes", total.bytes}};
    }
    return json;
}

Json weights_json(const ModelReport& report) {
    const auto bits = report.quantization ? report.quantization->bits : std::nullopt;
    const auto components = totals_by_component(report.tensors, bits);
    const TensorTotal total = total_of(components);
    Json files = Json::array();
    for (const WeightFile& file : report.weight_files) {
        files.push_back({{"name", file.name}, {"bytes", file.bytes}});
    }
    return {{"source", report.from_meta ? "config" : "headers"},
            {"tensors", total.tensors},
            {"bytes", total.bytes},
            {"components", totals_json(components)},
            {"dtypes", totals_json(totals_by_dtype(report.tensors, bits))},
            {"files", files},
            {"metadata", report.metadata}};
}

Json tensors_json(std::span<const ListedTensor> tensors) {
    Json json = Json::array();
    for (const ListedTensor& tensor : tensors) {
        json.push_back({{"name", tensor.name},
                        {"dtype", dtype_name(tensor.dtype)},
                        {"shape", tensor.shape},
                        {"bytes", tensor.bytes},
                        {"file", tensor.file}});
    }
    return json;
}

Json tokenizer_json(const Tokenizer& tokenizer) {
    Json special = Json::array();
    for (const SpecialToken& token : special_tokens(tokenizer)) {
        special.push_back({{"id", token.id}, {"text", token.text}, {"role", token.role}});
    }
    return {{"kind", tokenizer.algorithm()},
            {"file", std::filesystem::path(tokenizer.file_name()).filename().string()},
            {"vocab_size", tokenizer.vocab_size()},
            {"bos_token_id", optional_json(tokenizer.bos_id())},
            {"eos_token_id", optional_json(tokenizer.eos_id())},
            {"special_tokens", special}};
}

Json templates_json(std::span<const ChatTemplateReport> templates) {
    Json json = Json::array();
    for (const ChatTemplateReport& row : templates) {
        Json entry = {{"name", row.name}, {"bytes", row.bytes}, {"parses", row.fault.empty()}};
        if (!row.fault.empty()) entry["error"] = row.fault;
        json.push_back(entry);
    }
    return json;
}

Json generation_json(const GenerationConfig& generation) {
    return {{"eos_token_ids", generation.eos_token_ids},
            {"do_sample", optional_json(generation.do_sample)},
            {"temperature", optional_json(generation.temperature)},
            {"top_k", optional_json(generation.top_k)},
            {"top_p", optional_json(generation.top_p)},
            {"min_p", optional_json(generation.min_p)},
            {"repetition_penalty", optional_json(generation.repetition_penalty)},
            {"max_new_tokens", optional_json(generation.max_new_tokens)}};
}

Json draft_head_json(const DraftHeadConfig& head) {
    return {{"method", draft_method_name(head.method)},
            {"layout", head.layout.name},
            {"draft_vocab_size", head.draft_vocab_size},
            {"target_vocab_size", head.block.vocab_size},
            {"target_hidden_size", head.target_hidden_size},
            {"num_aux_hidden_states", head.num_aux_hidden_states},
            {"aux_layer_ids", head.aux_layer_ids},
            {"own_embedding", head.has_own_embedding},
            {"own_output_matrix", head.has_own_head()},
            {"target", head.target}};
}

void add_config(const ModelReport& report, Json& json) {
    json["architecture"] = report.config->architecture;
    json["model_type"] = report.config->model_type;
    json["text_architecture"] = report.config->text_architecture;
    json["supported"] = report.obstacle.empty();
    if (!report.obstacle.empty()) json["reason"] = report.obstacle;
    json["known_architectures"] = report.known_architectures;
    json["config"] = shape_json(*report.config);
    if (report.draft_head) json["draft_head"] = draft_head_json(*report.draft_head);
    if (!report.next_token_layout.empty()) json["next_token_layer"] = report.next_token_layout;
    if (!report.quantization) return;
    const QuantizationReport& quantization = *report.quantization;
    json["quantization"] = {{"method", quantization.method},
                            {"bits", optional_json(quantization.bits)},
                            {"group_size", optional_json(quantization.group_size)},
                            {"section", Json::parse(quantization.section)}};
    if (quantization.linears) {
        json["quantization"]["linears"] = {{"native", quantization.linears->native},
                                           {"widened", quantization.linears->widened}};
    }
}

}  // namespace

nlohmann::ordered_json report_json(const ModelReport& report, bool with_tensors) {
    Json json = {
        {"schema", "nvllm-inspect.model/1"}, {"path", report.path.string()}, {"kind", report.kind}};
    if (report.config) add_config(report, json);
    if (!report.tensors.empty() || !report.weight_files.empty()) {
        const auto bits = report.quantization ? report.quantization->bits : std::nullopt;
        json["parameters"] = total_of(totals_by_dtype(report.tensors, bits)).parameters;
        json["weights"] = weights_json(report);
    } else if (report.config) {
        json["parameters"] = report.estimated_parameters;
        json["parameters_are_estimated"] = true;
    }
    if (with_tensors) json["tensors"] = tensors_json(report.tensors);
    if (report.tokenizer) json["tokenizer"] = tokenizer_json(*report.tokenizer);
    if (report.tokenizer) json["chat_templates"] = templates_json(report.chat_templates);
    if (report.generation) json["generation"] = generation_json(*report.generation);
    json["notes"] = report.notes;
    return json;
}

}  // namespace nvllm::view
