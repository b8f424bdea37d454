// The one list of options, and what they mean to the library.
#include "tools/quantize/quantize_options.h"

#include <fmt/format.h>

#include "lib/checkpoint/model_directory.h"
#include "lib/quantize/recipe_file.h"

namespace nvllm::quantize_tool {
namespace {

void add_recipe_options(OptionList<QuantizeOptions>& list) {
    list.group("What becomes of the weights");
    list.add(
        "recipe", &QuantizeOptions::recipe_file,
        "A recipe in llm-compressor's YAML; the other options of this group do not count then.",
        value_name("FILE"), default_text("made of the options below"));
    list.add("scheme", &QuantizeOptions::scheme,
             "What linears are quantized to, by llm-compressor's names: W4A16, W8A16, W8A8, FP8, "
             "FP8_DYNAMIC, NVFP4, MXFP4 ...; none prunes alone.");
    list.add("method", &QuantizeOptions::methods,
             "How: rtn, gptq, awq, smoothquant, sparsegpt, magnitude, and rotation before others; "
             "several are done in order.",
             value_name("METHOD"), default_text("gptq"));
    list.add("group-size", &QuantizeOptions::group_size,
             "Values along the input that share a scale, or channel.", value_name("N"),
             default_text("the scheme's own"));
    list.add("targets", &QuantizeOptions::targets,
             "Linears that are meant: names, re: with a regular expression, or Linear.",
             value_name("TARGET"), default_text("Linear"));
    list.add("ignore", &QuantizeOptions::ignore,
             "Linears that stay as they are, beside lm_head; none: not even that.",
             value_name("TARGET"), default_text("lm_head"));
    list.add("actorder", &QuantizeOptions::actorder,
             "gptq: the order in which columns are decided. static: by descending activations; "
             "group: groups are made in that order too, which --format gptq alone has a place for.",
             choices({"off", "static", "group"}));
    list.add("dampening-frac", &QuantizeOptions::dampening_frac,
             "gptq, sparsegpt: what is added to second moments, as a share of their mean.",
             range(0.0, 10.0));
    list.add("solver-block-size", &QuantizeOptions::block_size,
             "gptq, sparsegpt: columns that are decided before the rest is told.", range(1, 65536));
    list.add("smoothing-strength", &QuantizeOptions::smoothing_strength,
             "smoothquant: how much of the outliers moves into the weights.", range(0.0, 1.0));
    list.add("n-grid", &QuantizeOptions::n_grid, "awq: how many strengths of scaling are tried.",
             range(1, 1000));
    list.add("duo-scaling", &QuantizeOptions::duo_scaling,
             "awq: factors heed the weights' magnitudes too.");
    list.add("clip", &QuantizeOptions::clip, "awq: search the ranges of groups as well.");
    list.add("sparsity", &QuantizeOptions::sparsity, "sparsegpt, magnitude: share of zeros.",
             range(0.0, 1.0));
    list.add("mask-structure", &QuantizeOptions::mask_structure,
             "sparsegpt, magnitude: 2:4 makes two of each four values zero.",
             default_text("unstructured"));
    list.add("kv-cache-scheme", &QuantizeOptions::kv_cache_scheme,
             "fp8: scales for keys and values in float8_e4m3, one of each layer's keys and one of "
             "its values, from the calibration text; the model is then served with such a cache.",
             choices({"none", "fp8"}));
}

void add_calibration_options(OptionList<QuantizeOptions>& list) {
    list.group("Calibration");
    list.add("calibration", &QuantizeOptions::calibration,
             "Text, JSON lines or lists with text or messages, a folder of such files, or - for "
             "standard input.",
             value_name("FILE"), default_text("the bundled text"));
    list.add("calibration-format", &QuantizeOptions::calibration_format,
             "How an object of a JSON lines file becomes text: 'Question: {question}'.");
    list.add("num-samples", &QuantizeOptions::num_samples, "Samples at most.", range(1, 1 << 24));
    list.add("max-seq-length", &QuantizeOptions::max_seq_length, "Tokens of a sample at most.",
             range(2, 1 << 20));
    list.add("concatenate", &QuantizeOptions::concatenate,
             "Texts follow one another until a sample is full.");
    list.add("shuffle", &QuantizeOptions::shuffle, "Texts come in an order drawn from the seed.");
    list.add("seed", &QuantizeOptions::seed, "Of that order, and of rotations.");
    list.add(
        "calibration-dtype", &QuantizeOptions::calibration_dtype,
        "Type of products with the calibration text; auto: bfloat16 where the weights have it, "
        "else float32.",
        choices({"auto", "float32", "bfloat16"}));
    list.add("propagate-error", &QuantizeOptions::propagate_error,
             "A block sees what the quantized blocks before it give, else the dense ones.");
}

void add_run_options(OptionList<QuantizeOptions>& list) {
    list.group("The run");
    list.add("memory-limit", &QuantizeOptions::memory_limit,
             "Memory that may be taken; activations beyond it go to a file.", counts_bytes(),
             default_text("three quarters of what is available"));
    list.add("offload-dir", &QuantizeOptions::offload_dir, "Where that file lies.",
             value_name("FOLDER"), default_text("beside the output"));
    list.add("threads", &QuantizeOptions::threads, "Threads.", short_name('t'), range(0, 4096),
             default_text("one for each physical core"));
    list.add("eval", &QuantizeOptions::eval,
             "A text to compare the models with afterwards: perplexity before and after, KL "
             "divergence, share of equal top tokens.",
             value_name("FILE"), default_text("none"));
    list.add("eval-tokens", &QuantizeOptions::eval_tokens, "Tokens of it at most.", at_least(0),
             default_text("all"));
    list.add("resume", &QuantizeOptions::resume, "Go on with an interrupted run.");
    list.add("restart", &QuantizeOptions::restart,
             "Throw away what an interrupted run kept, and begin anew.");
    list.add("dry-run", &QuantizeOptions::dry_run, "Say what would be done, and do nothing.");
    list.add("progress", &QuantizeOptions::progress,
             "auto: a bar on a terminal; lines: a line for each linear on standard error; json: "
             "the same as JSON on standard output; none.",
             choices({"auto", "lines", "json", "none"}));
}

}  // namespace

OptionList<QuantizeOptions> quantize_options() {
    OptionList<QuantizeOptions> list("quantize");
    list.group("Model");
    list.add("model", &QuantizeOptions::model,
             "Directory of a Hugging Face checkpoint, or org/name[@revision] in the local Hugging "
             "Face cache.",
             short_name('m'), value_name("MODEL"), default_text("the bundled demo"),
             refuses_empty(), named_once());
    list.add("output", &QuantizeOptions::output, "Directory to make.", short_name('o'),
             value_name("DIR"), default_text("MODEL-SCHEME in the current folder"));
    list.add("merge-lora", &QuantizeOptions::merge_lora,
             "A LoRA adapter in PEFT's format: instead of quantizing, make the model with the "
             "adapter in its weights.",
             value_name("DIR"), default_text("none"), refuses_empty(), named_once());
    list.add("format", &QuantizeOptions::format,
             "How quantized weights are stored: compressed-tensors, by the scheme; pack-quantized "
             "or int-quantized, the same with integers packed or a byte each; awq, as AutoAWQ's "
             "gemm; gptq, as AutoGPTQ does; gptq_v2, with zero points as they are.",
             choices({"compressed-tensors", "pack-quantized", "int-quantized", "awq", "gptq",
                      "gptq_v2"}));
    list.add("save-compressed", &QuantizeOptions::save_compressed,
             "Store linears that --mask-structure 2:4 pruned without their zeros, as "
             "sparse-24-bitmask; only older engines and this one read that.");
    add_recipe_options(list);
    add_calibration_options(list);
    add_run_options(list);
    return list;
}

quantize::Recipe QuantizeOptions::recipe(std::vector<std::string>& notes) const {
    quantize::Recipe made;
    if (recipe_file.empty()) {
        made = recipe_of_flags();
    } else {
        quantize::ReadRecipe read = quantize::read_recipe_file(recipe_file);
        notes = std::move(read.notes);
        made = std::move(read.recipe);
    }
    quantize::set_format(made, format);
    made.compresses_zeros = save_compressed;
    for (std::string& note : quantize::settle_actorder(made)) notes.push_back(std::move(note));
    return made;
}

quantize::Recipe QuantizeOptions::recipe_of_flags() const {
    quantize::RecipeFlags flags;
    flags.scheme = scheme;
    if (!methods.empty()) flags.methods = methods;
    flags.group_size = group_size;
    flags.targets = targets;
    if (ignore == std::vector<std::string>{"none"}) flags.ignore.clear();
    for (const std::string& target : ignore) {
        if (!flags.ignore.empty() && target != "lm_head") flags.ignore.push_back(target);
    }
    flags.actorder = actorder;
    flags.mask_structure = mask_structure;
    flags.float8_cache = kv_cache_scheme == "fp8";
    flags.solver.block_size = block_size;
    flags.solver.dampening_frac = dampening_frac;
    flags.solver.sparsity = sparsity;
    flags.scaling.smoothing_strength = smoothing_strength;
    flags.scaling.grid = n_grid;
    flags.scaling.duo_scaling = duo_scaling;
    flags.scaling.clips = clip;
    flags.seed = seed;
    return quantize::recipe_from_flags(flags);
}

quantize::PipelineOptions QuantizeOptions::pipeline(
    const std::filesystem::path& model_folder) const {
    quantize::PipelineOptions options;
    options.model = model_folder;
    options.output = output_of(
        model_folder,
        recipe_file.empty() ? scheme : std::filesystem::path(recipe_file).stem().string());
    options.calibration = {
        calibration, calibration_format, num_samples, max_seq_length, concatenate, shuffle, seed};
    options.compute_type = dtype_from_name(calibration_dtype);  // empty for auto
    options.propagates_error = propagate_error;
    options.interrupted = interrupted();
    options.version = NVLLM_VERSION;
    options.memory_limit_bytes = memory_limit;
    options.offload_folder = offload_dir;
    options.num_threads = threads;
    return options;
}

quantize::MergeOptions QuantizeOptions::merge(const std::filesystem::path& model_folder) const {
    quantize::MergeOptions options;
    options.model = model_folder;
    options.adapter = resolve_adapter_directory(merge_lora);
    const auto folder = std::filesystem::absolute(options.adapter / "").parent_path();
    options.output = output_of(model_folder, folder.filename().string());
    options.interrupted = interrupted();
    options.num_threads = threads;
    return options;
}

std::filesystem::path QuantizeOptions::output_of(const std::filesystem::path& model_folder,
                                                 const std::string& ending) const {
    if (!output.empty()) return output;
    const auto folder = std::filesystem::absolute(model_folder / "").parent_path();
    return folder.filename().string() + "-" + ending;
}

quantize::InterruptedRun QuantizeOptions::interrupted() const {
    if (resume && restart) {
        throw Error(ErrorKind::usage, "--resume and --restart exclude each other");
    }
    return resume    ? quantize::InterruptedRun::resumed
           : restart ? quantize::InterruptedRun::discarded
                     : quantize::InterruptedRun::refused;
}

std::string QuantizeOptions::scheme_and_method() const {
    if (!recipe_file.empty()) return "as " + recipe_file + " says";
    return fmt::format("{} by {}{}", scheme,
                       methods.empty() ? "gptq" : fmt::format("{}", fmt::join(methods, ", then ")),
                       kv_cache_scheme == "fp8" ? ", keys and values in FP8" : "");
}

}  // namespace nvllm::quantize_tool
