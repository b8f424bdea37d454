// Names, help and ranges of the options that choose a model and how its weights are read.
#include "lib/engine/options/part_options.h"

namespace nvllm {
namespace {

OptionList<ModelLoadOptions> weight_loading_options() {
    OptionList<ModelLoadOptions> list("engine");
    list.group("Model");
    list.add("load-seed", &ModelLoadOptions::seed, "Seed of dummy weights.");
    list.add("repack-cache", &ModelLoadOptions::repack_cache,
             "Keep quantized weights there in the order in which the CPU multiplies them: the next "
             "start maps them instead of making them again.",
             value_name("DIR"), default_text("they are not kept"));
    return list;
}

}  // namespace

std::vector<std::string> precision_words() {
    return {"auto", "float32", "bfloat16", "float16", "fp32", "bf16", "fp16", "float", "half"};
}

OptionList<ModelChoice> model_options(WithModel with_model) {
    OptionList<ModelChoice> list("engine");
    list.group("Model");
    if (with_model == WithModel::yes) {
        list.add("model", &ModelChoice::name,
                 "Directory of a Hugging Face checkpoint, or org/name[@revision] in the local "
                 "Hugging Face cache.",
                 short_name('m'), value_name("MODEL"), default_text("the bundled demo"),
                 refuses_empty(), named_once());
    }
    list.add("revision", &ModelChoice::revision,
             "Branch, tag or commit of a model in the cache that is named without one; a folder is "
             "taken as it is.",
             value_name("NAME"), default_text("main"));
    list.add("download-dir", &ModelChoice::download_dir,
             "Folder of the Hugging Face cache; nothing is downloaded.", value_name("DIR"),
             default_text("HF_HUB_CACHE, or what HF_HOME says"));
    list.add("tokenizer", &ModelChoice::tokenizer,
             "Folder or name whose tokenizer and template are used.", value_name("MODEL"),
             default_text("the model's own"));
    list.add("generation-config", &ModelChoice::generation_config,
             "Where sampling defaults come from: auto, the model's generation_config.json; vllm, "
             "nowhere, but for its end tokens; or another folder with that file.",
             value_name("auto|vllm|DIR"), words({"auto", "vllm"}));
    list.add("override-generation-config", &ModelChoice::generation_overrides,
             "Members in place of generation_config.json's, such as {\"temperature\": 0.6}.",
             value_name("JSON"), default_text("none"));
    list.add("dtype", &ModelChoice::dtype, "Type of products and of the key-value cache.",
             choices(precision_words()));
    list.add("quantization", &ModelChoice::quantization,
             "auto: weights as the checkpoint stores them; none: refuse quantized checkpoints; "
             "else the method that the checkpoint must have.",
             choices({"auto", "none", "awq", "gptq", "auto-round", "bitsandbytes", "fp8", "mxfp4",
                      "modelopt", "compressed-tensors"}));
    list.add("load-format", &ModelChoice::load_format,
             "dummy: seeded random weights for any config.json, to measure speed.",
             choices({"auto", "safetensors", "dummy"}), unlisted({"metronome"}));
    list.include(&ModelChoice::load, weight_loading_options());
    list.add("chat-template", &ModelChoice::chat_template,
             "Jinja template of conversations: a file, or the text itself.",
             value_name("FILE|TEXT"), default_text("the model's own"));
    list.add("classifier-from-token", &ModelChoice::classifier_from_token,
             "Score texts by the logits of these tokens of a text model, that of a relevant "
             "document last: no,yes for Qwen3-Reranker.",
             value_name("TOKENS"), default_text("none"));
    return list;
}

}  // namespace nvllm
