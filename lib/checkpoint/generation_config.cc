// Defaults of generation that a model's authors publish with it, as transformers reads them.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <system_error>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/base/unused_keys.h"
#include "lib/checkpoint/config_fields.h"
#include "lib/checkpoint/model_config.h"

namespace nvllm {
namespace {

constexpr uint64_t kMaxGenerationConfigBytes = uint64_t{1} << 20;
constexpr const char* kOverrides = "--override-generation-config";
// What a request may have (lib/request/sampling_fields.h); a file with more is not followed.
constexpr size_t kMaxBadWords = 1024, kLongestBadWord = 64, kMaxBiases = 1024;
constexpr size_t kMaxStopStrings = 16, kLongestStopString = 256;
constexpr double kLargestBias = 100.0, kLargestDecay = 10.0;

// What generate() does not choose tokens by, or does nothing with at this value. Models that draft
// are given apart and change no answer.
constexpr HarmlessKey kHarmlessForGeneration[] = {
    {"assistant_confidence_threshold"},
    {"assistant_early_exit"},
    {"assistant_ensemble_weight"},
    {"assistant_lookbehind"},
    {"cache_config"},
    {"cache_implementation", "\"dynamic\""},
    {"cache_implementation", "\"hybrid\""},
    {"cache_implementation", "\"hybrid_chunked\""},
    {"cache_implementation", "\"offloaded\""},
    {"cache_implementation", "\"offloaded_static\""},
    {"cache_implementation", "\"sliding_window\""},
    {"cache_implementation", "\"static\""},
    {"compile_config"},
    {"continuous_batching_config"},
    {"decoder_start_token_id"},
    {"disable_compile"},
    {"diversity_penalty", "0"},
    {"encoder_no_repeat_ngram_size", "0"},
    {"encoder_repetition_penalty", "1"},
    {"guidance_scale", "1"},
    {"is_assistant"},
    {"low_memory"},
    {"max_cache_len"},
    {"max_matching_ngram_size"},
    {"num_assistant_tokens"},
    {"num_assistant_tokens_schedule"},
    {"num_beam_groups", "1"},
    {"num_beams", "1"},
    {"num_return_sequences", "1"},
    {"output_attentions"},
    {"output_hidden_states"},
    {"output_logits"},
    {"output_scores"},
    {"pad_token_id"},
    {"penalty_alpha", "0"},
    {"prefill_chunk_size"},
    {"prompt_lookup_num_tokens"},
    {"remove_invalid_values", "false"},
    {"renormalize_logits"},
    {"return_dict_in_generate"},
    {"speculation_type"},
    {"target_lookbehind"},
    {"token_healing", "false"},
    {"transformers_version"},
    {"use_cache"},
    {"use_mtp"},
};

std::optional<int32_t> small_integer(const ConfigFields& fields, const char* key, int64_t low = 0) {
    const auto value = fields.integer(key, low, INT32_MAX);
    return value ? std::optional<int32_t>(static_cast<int32_t>(*value)) : std::nullopt;
}

std::optional<float> fraction(const ConfigFields& fields, const char* key, double high,
                              double low = 0.0) {
    const auto value = fields.number(key, low, high);
    return value ? std::optional<float>(static_cast<float>(*value)) : std::nullopt;
}

// Nothing where generate() cuts nothing off.
std::optional<float> cutoff(const ConfigFields& fields, const char* key) {
    const auto value = fraction(fields, key, 1e6, -1e6);
    return value && *value > 0.0f && *value < 1.0f ? value : std::nullopt;
}

std::vector<int32_t> token_ids(const ConfigFields& fields, const char* key) {
    std::vector<int32_t> ids;
    for (const int64_t id : fields.integers(key)) {
        if (id > INT32_MAX) fields.refuse(key, "a token id is at most 2147483647");
        // Some files write -1 for "none".
        if (id >= 0) ids.push_back(static_cast<int32_t>(id));
    }
    return ids;
}

// Token ids of one of several sequences; `key` is for messages.
std::vector<int32_t> sequence_of(const ConfigFields& fields, const char* key,
                                 const nlohmann::json& value) {
    std::vector<int32_t> ids;
    if (!value.is_array() || value.empty()) fields.refuse(key, "lists of token ids are expected");
    for (const nlohmann::json& id : value) {
        const bool fits = id.is_number_unsigned() && id.get<uint64_t>() <= uint64_t{INT32_MAX};
        if (!fits) fields.refuse(key, "a token id is a whole number from 0 to 2147483647");
        ids.push_back(static_cast<int32_t>(id.get<uint64_t>()));
    }
    return ids;
}

// [[1, 2], [3]]. Whether all could be taken.
bool read_bad_words(const ConfigFields& fields, GenerationConfig& config) {
    constexpr const char* kKey = "bad_words_ids";
    const nlohmann::json* lists = fields.find(kKey);
    if (lists == nullptr) return true;
    if (!lists->is_array()) fields.refuse(kKey, "a list of lists of token ids is expected");
    std::vector<std::vector<int32_t>> words;
    for (const nlohmann::json& list : *lists) {
        words.push_back(sequence_of(fields, kKey, list));
        if (words.back().size() > kLongestBadWord || words.size() > kMaxBadWords) return false;
    }
    config.bad_words_ids = std::move(words);
    return true;
}

// [[[1], -2.5], ...]. Whether all could be taken: sequences of several tokens cannot.
bool read_sequence_bias(const ConfigFields& fields, GenerationConfig& config) {
    constexpr const char* kKey = "sequence_bias";
    const nlohmann::json* pairs = fields.find(kKey);
    if (pairs == nullptr) return true;
    if (!pairs->is_array() || pairs->size() > kMaxBiases) return false;
    std::vector<std::pair<int32_t, float>> biases;
    for (const nlohmann::json& pair : *pairs) {
        if (!pair.is_array() || pair.size() != 2 || !pair[1].is_number()) {
            fields.refuse(kKey, "a list of token ids, each with a number, is expected");
        }
        const std::vector<int32_t> sequence = sequence_of(fields, kKey, pair[0]);
        const double bias = pair[1].get<double>();
        if (sequence.size() != 1 || bias < -kLargestBias || bias > kLargestBias) return false;
        biases.emplace_back(sequence[0], static_cast<float>(bias));
    }
    config.token_biases = std::move(biases);
    return true;
}

bool read_length_decay(const ConfigFields& fields, GenerationConfig& config) {
    constexpr const char* kKey = "exponential_decay_length_penalty";
    const auto numbers = fields.numbers(kKey, 0.0, INT32_MAX);
    if (!numbers) return true;
    if (numbers->size() != 2) fields.refuse(kKey, "a number of tokens and a factor are expected");
    if (numbers->at(1) <= 0.0 || numbers->at(1) > kLargestDecay) return false;
    config.exponential_decay_length_penalty = {static_cast<int32_t>(numbers->at(0)),
                                               static_cast<float>(numbers->at(1))};
    return true;
}

bool read_stop_strings(const ConfigFields& fields, GenerationConfig& config) {
    constexpr const char* kKey = "stop_strings";
    const nlohmann::json* value = fields.find(kKey);
    if (value == nullptr) return true;
    std::vector<std::string> texts;
    if (value->is_string()) {
        texts = {value->get<std::string>()};
    } else {
        texts = *fields.texts(kKey);
    }
    if (texts.size() > kMaxStopStrings) return false;
    for (const std::string& text : texts) {
        if (text.empty() || text.size() > kLongestStopString) return false;
    }
    config.stop_strings = std::move(texts);
    return true;
}

bool read_early_stopping(const ConfigFields& fields, GenerationConfig& config) {
    const nlohmann::json* value = fields.find("early_stopping");
    if (value == nullptr) return true;
    if (*value == "never") {
        config.early_stopping = "never";
    } else if (value->is_boolean()) {
        config.early_stopping = value->get<bool>() ? "yes" : "no";
    } else {
        return false;
    }
    return true;
}

struct PartRow {
    const char* key;
    // Whether the value could be taken; throws Error{bad_data} when it is none.
    bool (*read)(const ConfigFields&, GenerationConfig&);
};

constexpr PartRow kParts[] = {
    {"bad_words_ids", read_bad_words},
    {"sequence_bias", read_sequence_bias},
    {"exponential_decay_length_penalty", read_length_decay},
    {"stop_strings", read_stop_strings},
    {"early_stopping", read_early_stopping},
};

void read_lengths(const ConfigFields& fields, GenerationConfig& config) {
    config.max_new_tokens = small_integer(fields, "max_new_tokens", 1);
    config.max_length = small_integer(fields, "max_length", 1);
    config.min_new_tokens = small_integer(fields, "min_new_tokens");
    config.min_length = small_integer(fields, "min_length");
}

void read_choosing(const ConfigFields& fields, GenerationConfig& config) {
    config.do_sample = fields.boolean("do_sample");
    config.temperature = fraction(fields, "temperature", 1e6);
    config.top_k = small_integer(fields, "top_k");
    config.top_p = fraction(fields, "top_p", 1.0);
    config.min_p = fraction(fields, "min_p", 1.0);
    config.typical_p = fraction(fields, "typical_p", 1.0);
    config.top_h = fraction(fields, "top_h", 1.0);
    config.epsilon_cutoff = cutoff(fields, "epsilon_cutoff");
    config.eta_cutoff = cutoff(fields, "eta_cutoff");
    config.repetition_penalty = fraction(fields, "repetition_penalty", 1e6);
    config.no_repeat_ngram_size = small_integer(fields, "no_repeat_ngram_size");
    config.length_penalty = fraction(fields, "length_penalty", 10.0, -10.0);
}

void read_tokens(const ConfigFields& fields, GenerationConfig& config) {
    config.eos_token_ids = token_ids(fields, "eos_token_id");
    const std::vector<int32_t> bos = token_ids(fields, "bos_token_id");
    if (!bos.empty()) config.bos_token_id = bos.front();
    config.suppress_tokens = token_ids(fields, "suppress_tokens");
    config.begin_suppress_tokens = token_ids(fields, "begin_suppress_tokens");
    config.forced_eos_token_ids = token_ids(fields, "forced_eos_token_id");
    config.forced_bos_token_id = small_integer(fields, "forced_bos_token_id");
}

// Null takes a member away.
void replace_members(nlohmann::json& document, const std::string& overrides) {
    const nlohmann::json given = parse_json(overrides, kOverrides);
    if (!given.is_object()) {
        throw Error(
            ErrorKind::bad_data,
            std::string(kOverrides) + ": is not a JSON object such as {\"temperature\": 0.6}");
    }
    document.merge_patch(given);
}

}  // namespace

GenerationConfig read_generation_config(const std::filesystem::path& directory,
                                        const std::string& overrides) {
    const std::filesystem::path path = directory / "generation_config.json";
    std::error_code ignored;
    const bool has_file = !directory.empty() && std::filesystem::exists(path, ignored);
    if (!has_file && overrides.empty()) return {};
    nlohmann::json document = nlohmann::json::object();
    if (has_file) document = parse_json(read_file(path, kMaxGenerationConfigBytes), path.string());
    if (!overrides.empty()) replace_members(document, overrides);
    const ConfigFields fields(document, has_file ? path.string() : kOverrides);
    GenerationConfig config;
    read_tokens(fields, config);
    read_choosing(fields, config);
    read_lengths(fields, config);
    KeySet given_up;
    for (const PartRow& part : kParts) {
        if (!part.read(fields, config)) given_up.insert(part.key);
    }
    KeySet used = fields.asked();
    for (const std::string& key : given_up) used.erase(key);
    const std::string note =
        unused_keys_note(fields.file_name(), unused_keys(document, used, kHarmlessForGeneration));
    if (!note.empty()) config.notes.push_back(note);
    return config;
}

}  // namespace nvllm
