// Names, help and ranges of sampling options.
#include "lib/engine/options/option_lists.h"

#include <fmt/format.h>

namespace nvllm {
namespace {

template <typename T>
void take(const std::optional<T>& given, T& target) {
    if (given) target = *given;
}

template <typename T>
void take(const std::optional<T>& given, std::optional<T>& target) {
    if (given) target = given;
}

// "123+1.5" or "123-2": a token id and what is added to its logit.
std::pair<int32_t, float> parse_logit_bias(const std::string& text) {
    const size_t sign = text.find_first_of("+-", 1);
    if (sign != std::string::npos) {
        const auto id = parse_integer<int32_t>(text.substr(0, sign));
        const auto bias = parse_number(text.substr(text[sign] == '+' ? sign + 1 : sign));
        if (id && bias) return {*id, static_cast<float>(*bias)};
    }
    throw Error(
        ErrorKind::usage,
        fmt::format("--logit-bias: '{}' is not ID+BIAS or ID-BIAS, such as 15043+1.5", text));
}

}  // namespace

OptionList<SamplingFlags> sampling_options() {
    OptionList<SamplingFlags> list("sampling");
    list.group("Sampling (defaults are the model's generation_config.json, else those of vLLM)");
    list.add("max-tokens", &SamplingFlags::max_tokens, "Tokens to generate at most.",
             short_name('n'), alias("predict"), alias("n-predict"), range(1, INT32_MAX),
             default_text("to the context's end"));
    list.add("temperature", &SamplingFlags::temperature, "0: always the likeliest token.",
             alias("temp"), range(0.0, 2.0), default_text("1"));
    list.add("top-k", &SamplingFlags::top_k, "Keep the k likeliest tokens; 0: all.", at_least(0),
             default_text("0"));
    list.add("top-p", &SamplingFlags::top_p,
             "Keep the likeliest tokens that together have this probability.", range(0.0, 1.0),
             default_text("1"));
    list.add("min-p", &SamplingFlags::min_p,
             "Keep tokens with at least this share of the likeliest one's probability.",
             range(0.0, 1.0), default_text("0"));
    list.add("typical-p", &SamplingFlags::typical_p,
             "Keep the tokens of most typical surprise that together have this probability.",
             alias("typical"), range(0.0, 1.0), default_text("1"));
    list.add("top-n-sigma", &SamplingFlags::top_n_sigma,
             "Keep tokens whose logit is at most so many deviations below the best; 0: all.",
             range(0.0, 100.0), default_text("0"));
    list.add("top-h", &SamplingFlags::top_h,
             "Keep the likeliest tokens that together have this share of the entropy; 0: all.",
             range(0.0, 1.0), default_text("0"));
    list.add("epsilon-cutoff", &SamplingFlags::epsilon_cutoff,
             "Keep tokens with at least this probability; 0 and 1: all.", range(0.0, 1.0),
             default_text("0"));
    list.add("eta-cutoff", &SamplingFlags::eta_cutoff,
             "The same, with less where the distribution is flat; 0 and 1: all.", range(0.0, 1.0),
             default_text("0"));
    list.add("samplers", &SamplingFlags::samplers,
             "Which of temperature, top_n_sigma, top_h, top_k, top_p, min_p, typical_p, "
             "epsilon_cutoff, eta_cutoff to apply, in this order.",
             value_name("NAME"), default_text("all, in that order"));
    list.add("allowed-token-ids", &SamplingFlags::allowed_token_ids,
             "Choose only among these tokens.", value_name("ID"));
    list.add("suppress-tokens", &SamplingFlags::suppress_tokens, "Never choose these tokens.",
             value_name("ID"));
    list.add("no-repeat-ngram-size", &SamplingFlags::no_repeat_ngram_size,
             "No sequence of so many tokens comes twice, the prompt's included; 0: any may.",
             at_least(0), default_text("0"));
    list.add("repetition-penalty", &SamplingFlags::repetition_penalty,
             "Above 1 makes tokens of prompt and answer less likely.", alias("repeat-penalty"),
             range(0.0, 10.0), default_text("1"));
    list.add("presence-penalty", &SamplingFlags::presence_penalty,
             "Taken off tokens that were generated before.", range(-2.0, 2.0), default_text("0"));
    list.add("frequency-penalty", &SamplingFlags::frequency_penalty,
             "Taken off for each time a token was generated.", range(-2.0, 2.0), default_text("0"));
    list.add("logit-bias", &SamplingFlags::logit_bias,
             "Added to a token's logit, as ID+BIAS or ID-BIAS.", short_name('l'),
             value_name("ID+BIAS"));
    list.add("min-tokens", &SamplingFlags::min_tokens, "No end before this many tokens.",
             at_least(0), default_text("0"));
    list.add("ignore-eos", &SamplingFlags::ignore_eos, "Go on past the model's end tokens.",
             default_text("false"));
    list.add("stop", &SamplingFlags::stop, "Stop at this text, which is not shown.",
             alias("reverse-prompt"), short_name('r'), value_name("TEXT"));
    list.add("stop-token-ids", &SamplingFlags::stop_token_ids, "Stop at this token.",
             value_name("ID"));
    list.add("include-stop-str-in-output", &SamplingFlags::include_stop,
             "Show what stopped the answer.", default_text("false"));
    list.add("skip-special-tokens", &SamplingFlags::skip_special_tokens,
             "Leave special tokens out of the text.", default_text("true"));
    list.add("logprobs", &SamplingFlags::logprobs,
             "In JSON output, the logprob of each token and of this many likeliest beside it.",
             range(0, 20));
    list.add("prompt-logprobs", &SamplingFlags::prompt_logprobs,
             "The same for each token of the prompt, which is then computed in full.",
             range(0, 20));
    list.add("n", &SamplingFlags::n, "Answers to each prompt.", range(1, 16), default_text("1"));
    list.add("best-of", &SamplingFlags::best_of,
             "Answers made, of which the --n likeliest are given; the width of a beam search.",
             range(1, 64), default_text("as many as --n"));
    list.add("use-beam-search", &SamplingFlags::use_beam_search,
             "Search for the likeliest answers instead of drawing tokens.", default_text("false"));
    list.add("length-penalty", &SamplingFlags::length_penalty,
             "Scores of beams are divided by their length to this power.", range(-10.0, 10.0),
             default_text("1"));
    list.add("early-stopping", &SamplingFlags::early_stopping,
             "When a beam search ends: yes, as soon as there are enough answers; never, when no "
             "better one is possible; no, when none is likely.",
             choices({"no", "yes", "never"}), default_text("no"));
    list.add("seed", &SamplingFlags::seed,
             "The same seed gives the same answer, whatever else runs beside it.", short_name('s'),
             default_text("random"));
    return list;
}

SamplingParams SamplingFlags::over(SamplingParams sampling) const {
    take(max_tokens, sampling.max_tokens);
    take(temperature, sampling.temperature);
    take(top_k, sampling.top_k);
    take(top_p, sampling.top_p);
    take(min_p, sampling.min_p);
    take(typical_p, sampling.typical_p);
    take(top_n_sigma, sampling.top_n_sigma);
    take(top_h, sampling.top_h);
    take(epsilon_cutoff, sampling.epsilon_cutoff);
    take(eta_cutoff, sampling.eta_cutoff);
    take(no_repeat_ngram_size, sampling.no_repeat_ngram_size);
    if (!suppress_tokens.empty()) sampling.suppress_tokens = suppress_tokens;
    if (!samplers.empty()) sampling.sampler_order = samplers;
    if (!allowed_token_ids.empty()) sampling.allowed_token_ids = allowed_token_ids;
    take(repetition_penalty, sampling.repetition_penalty);
    take(presence_penalty, sampling.presence_penalty);
    take(frequency_penalty, sampling.frequency_penalty);
    // The model's own default is no demand: a short answer may be asked for.
    sampling.min_tokens = std::min(sampling.min_tokens, sampling.max_tokens.value_or(INT32_MAX));
    take(min_tokens, sampling.min_tokens);
    take(ignore_eos, sampling.ignore_eos);
    take(include_stop, sampling.include_stop_in_output);
    take(skip_special_tokens, sampling.skip_special_tokens);
    take(logprobs, sampling.logprobs);
    take(prompt_logprobs, sampling.prompt_logprobs);
    take(n, sampling.n);
    take(best_of, sampling.best_of);
    take(use_beam_search, sampling.use_beam_search);
    take(length_penalty, sampling.length_penalty);
    if (early_stopping == "yes") sampling.early_stopping = EarlyStopping::yes;
    if (early_stopping == "never") sampling.early_stopping = EarlyStopping::never;
    take(seed, sampling.seed);
    if (!stop.empty()) sampling.stop = stop;
    if (!stop_token_ids.empty()) sampling.stop_token_ids = stop_token_ids;
    for (const std::string& text : logit_bias)
        sampling.logit_bias.push_back(parse_logit_bias(text));
    return sampling;
}

}  // namespace nvllm
