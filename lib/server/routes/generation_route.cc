// Reading, admission and start of a generation.
#include "lib/server/routes/generation_route.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/server/requests/active_generation.h"
#include "lib/server/routes/model_request.h"

namespace nvllm::server {
namespace {

// Checked before admission: more sequences than a request may have would keep out all others.
std::optional<Fault> check_num_sequences(const GenerationRequest& request) {
    const SamplingParams& sampling = request.inputs.front().sampling;
    if (auto wrong = sampling.check_counts()) return wrong;
    if (request.num_sequences() <= kMaxSequencesOfRequest) return std::nullopt;
    return Fault{ErrorKind::bad_data,
                 fmt::format("{} prompts with {} sequences each are {}; one call may have {}: "
                             "send several",
                             request.inputs.size(), sampling.num_sequences(),
                             request.num_sequences(), kMaxSequencesOfRequest),
                 "n"};
}

}  // namespace

void start_generation(RouteContext& context, const TransactionPointer& transaction,
                      const ReadGenerationCall& read, const char* prompt_field) {
    auto asked = read_model_request(context, transaction);
    if (!asked) return;
    HostedModel& model = *asked->model;
    auto call = read(std::move(asked->body), model);
    if (!call) return refuse(transaction, call.fault());
    GenerationRequest& request = call->request;
    if (const auto wrong = check_num_sequences(request)) return refuse(transaction, *wrong);
    auto admitted =
        admit(context, transaction, model, prompt_field, request.inputs, request.num_sequences());
    if (!admitted) return;
    add_ignored_header(transaction, request.ignored);
    auto generation = std::make_shared<ActiveGeneration>(
        std::move(request), call->make_writer, asked->model, transaction,
        std::move(admitted->permit), context.tokenizer_threads, removal_from(context.active));
    context.active.add(generation);
    generation->start(std::move(admitted->prepared));
}

}  // namespace nvllm::server
