// nvllm-quantize quantize: plan, run, summary.
#include "tools/quantize/quantize.h"

#include <fmt/format.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "lib/base/json.h"
#include "lib/base/units.h"
#include "lib/checkpoint/model_directory.h"
#include "lib/cli/main_guard.h"
#include "lib/cli/progress.h"
#include "lib/engine/default_model.h"
#include "lib/engine/options/neighbour_flags.h"
#include "lib/quantize/evaluation.h"
#include "tools/quantize/native_linears.h"
#include "tools/quantize/quantize_options.h"

namespace nvllm::quantize_tool {
namespace {

using quantize::LinearRecord;
using quantize::Pipeline;

std::filesystem::path choose_model(const QuantizeOptions& options) {
    if (!options.model.empty()) return resolve_model_directory(options.model);
    const std::filesystem::path model = require_bundled_model();
    say(fmt::format("no model was named; using the bundled demo, {}", model.string()));
    return model;
}

std::string plan_text(const Pipeline& pipeline, const quantize::PipelineOptions& options) {
    const quantize::ResourcePlan& plan = pipeline.resources();
    std::string text = fmt::format(
        "output       {}\nlinears      {} of {} change\ncalibration  {}\n", options.output.string(),
        pipeline.num_changed(), pipeline.model().linears().size(),
        pipeline.calibration() != nullptr ? pipeline.calibration()->description : "none needed");
    text += fmt::format(
        "memory       {}: block {}, second moments {}, forward pass {}, activations {}{}\n",
        describe_bytes(plan.peak_bytes()), describe_bytes(plan.block_bytes),
        describe_bytes(plan.moments_bytes), describe_bytes(plan.forward_bytes),
        describe_bytes(plan.activation_bytes), plan.spills ? " in a file" : "");
    return text + fmt::format(
                      "weights      {}, from {}\ndisk         {} at most\nwork         "
                      "{:.3g} operations\n",
                      describe_bytes(plan.output_bytes),
                      describe_bytes(pipeline.model().checkpoint().data_bytes()),
                      describe_bytes(plan.disk_bytes), 2.0 * plan.operations);
}

// Tells of linears as they are done, in the way that was asked for.
class ProgressReporter {
  public:
    ProgressReporter(const std::string& how, const std::string& doing) : how_(how) {
        if (how == "auto") bar_.emplace(doing, kParts, clock_);
    }

    void linear(const LinearRecord& record, size_t done, size_t total) {
        if (how_ == "json") {
            nlohmann::ordered_json object = quantize::record_json(record);
            object["done"] = done;
            object["total"] = total;
            object["elapsed_s"] = clock_.now_s() - start_s_;
            write_output(write_json(object) + "\n");
        } else if (how_ == "lines") {
            say(fmt::format("{}/{} {}  {}  error {:.3g}", done, total, record.name, record.method,
                            record.relative_error));
        }
    }

    void share(double share) {
        if (bar_) bar_->update(static_cast<uint64_t>(share * kParts));
    }

  private:
    static constexpr uint64_t kParts = 1000;
    std::string how_;
    MonotonicClock clock_;
    double start_s_ = clock_.now_s();
    std::optional<Progress> bar_;
};

void evaluate_into(quantize::Report& report, const QuantizeOptions& options,
                   const quantize::PipelineOptions& pipeline_options,
                   const std::filesystem::path& output) {
    if (options.eval.empty()) return;
    quantize::EvaluationOptions evaluation;
    evaluation.base = pipeline_options.model;
    evaluation.model = output;
    evaluation.text = options.eval;
    evaluation.context = options.max_seq_length;
    evaluation.most_tokens = options.eval_tokens;
    evaluation.num_threads = options.threads;
    ProgressReporter teller(options.progress == "auto" ? "auto" : "none", "Evaluating");
    report.evaluation = quantize::evaluate(evaluation, [&](double share) { teller.share(share); });
}

quantize::Report make_output(Pipeline& pipeline, const QuantizeOptions& options,
                             const quantize::PipelineOptions& pipeline_options) {
    ProgressReporter teller(options.progress, "Quantizing");
    const quantize::PipelineResult result = pipeline.run(
        {[&](const LinearRecord& record, size_t done, size_t total) {
             teller.linear(record, done, total);
         },
         [&](double share) { teller.share(share); }, [] { return stop_signal().has_value(); }});
    quantize::Report report = pipeline.report(result);
    for (const std::string& warning : quantize::report_warnings(report)) say(warning);
    evaluate_into(report, options, pipeline_options, pipeline.unpublished());
    quantize::write_report(report, pipeline.unpublished());
    pipeline.publish();
    return report;
}

int summarize(const quantize::Report& report, const QuantizeOptions& options,
              const std::filesystem::path& output) {
    if (options.progress == "json") return 0;
    write_output(output.string() + "\n" + quantize::report_text(report, false));
    return 0;
}

int finish(Pipeline& pipeline, const QuantizeOptions& options,
           const quantize::PipelineOptions& pipeline_options) {
    watch_stop_signals();
    const std::filesystem::path& output = pipeline_options.output;
    try {
        return summarize(make_output(pipeline, options, pipeline_options), options, output);
    } catch (const quantize::Stopped&) {
        say("stopped; --resume goes on where it was");
        return exit_code_for_signal(*stop_signal());
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::io || std::filesystem::exists(output)) throw;
        throw Error(ErrorKind::io,
                    fmt::format("{}; what is done is kept: make room, and the same command with "
                                "--resume goes on",
                                error.what()));
    }
}

}  // namespace

void say(const std::string& text) { fmt::print(stderr, "nvllm-quantize: {}\n", text); }

int run_quantize(const Invocation& invocation) {
    QuantizeOptions options;
    const auto list = quantize_options();
    OptionSet set;
    set.add(list, options);
    set.add_foreign(hub_name_flags());
    if (answered(invocation, set)) return 0;
    if (!options.merge_lora.empty()) return run_merge(options, choose_model(options), set);
    std::vector<std::string> notes;
    const quantize::Recipe recipe = options.recipe(notes);
    for (const std::string& note : notes) say(note);
    const quantize::PipelineOptions pipeline_options = options.pipeline(choose_model(options));
    Pipeline pipeline(pipeline_options, recipe);
    for (const std::string& note : notes_of_model(pipeline_options.model)) say(note);
    for (const std::string& note : pipeline.notes()) say(note);
    if (options.dry_run) {
        write_output(plan_text(pipeline, pipeline_options));
        if (pipeline.plan().quantizes()) {
            const QuantizationConfig planned = pipeline.plan().config(pipeline.model());
            write_output(native_linears_text(quantized_linears(pipeline_options.model, planned),
                                             "runs         "));
        }
        return 0;
    }
    if (pipeline.finish_published()) {
        say("was finished already, but for what lay beside the output");
        return summarize(quantize::read_report(pipeline_options.output), options,
                         pipeline_options.output);
    }
    say(fmt::format(
        "{}; calibration: {}", options.scheme_and_method(),
        pipeline.calibration() != nullptr ? pipeline.calibration()->description : "none needed"));
    pipeline.check_resources();
    return finish(pipeline, options, pipeline_options);
}

}  // namespace nvllm::quantize_tool
