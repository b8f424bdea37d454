// From a setup to a worker.
#include "lib/execute/worker_setup.h"

#include <fmt/format.h>

#include "kernels/ops/open_backend.h"
#include "lib/base/clock.h"
#include "lib/base/fault_points.h"
#include "lib/base/log.h"
#include "lib/execute/propose/proposer_methods.h"
#include "lib/model/dense_modules.h"

namespace nvllm {
namespace {

void check_as_planned(const std::filesystem::path& directory, const std::vector<CacheLayout>& found,
                      const std::vector<CacheLayout>& planned, bool is_same = true) {
    if (is_same && found == planned) return;
    throw Error(ErrorKind::bad_data,
                fmt::format("{}: another model than the one this engine was started with; start it "
                            "anew",
                            directory.string()));
}

std::unique_ptr<ModelProposer> load_proposer(const WorkerSetup& setup, const Model& model,
                                             ThreadPool& threads) {
    if (!setup.proposer.enabled()) return nullptr;
    ProposerSetup own = setup.proposer;
    own.model.threads = &threads;
    auto proposer = make_proposer(own, model.config(), ProposerUse::runs);
    check_as_planned(own.model.directory, proposer->kv_groups(), setup.draft_kv_groups);
    return proposer;
}

// What makes a device slow is said like everything else that is.
void hear_warnings(const ComputeDevice& device) {
    if (device.is_cpu() || device.backend()->set_warn == nullptr) return;
    device.backend()->set_warn([](const char* sentence) { log_warning(sentence); });
}

}  // namespace

std::unique_ptr<Worker> make_worker(const WorkerSetup& setup, ThreadPool& threads,
                                    WorkerReady& ready) {
    fault_point("worker.start");
    const MonotonicClock clock;
    const double begin_s = clock.now_s();
    if (const std::string refused = threads.bind_caller(); !refused.empty()) log_warning(refused);
    ModelLoadOptions options = setup.model;
    options.threads = &threads;
    const ComputeDevice device = open_device(setup.model.device);
    hear_warnings(device);
    std::unique_ptr<Model> model = load_model(options);
    check_as_planned(options.directory, model->kv_groups(), setup.kv_groups,
                     model->config().vocab_size == setup.vocab_size);
    std::unique_ptr<ModelProposer> proposer = load_proposer(setup, *model, threads);
    DenseModules dense = load_dense_modules(options, model->config().hidden_size);
    const double loaded_s = clock.now_s();
    auto worker =
        std::make_unique<Worker>(std::move(model), setup.worker, threads, device,
                                 std::move(proposer), setup.proposer.shape, std::move(dense));
    ready.weights_ms = (loaded_s - begin_s) * 1000.0;
    ready.worker_ms = (clock.now_s() - loaded_s) * 1000.0;
    return worker;
}

}  // namespace nvllm
