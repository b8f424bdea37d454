// Reading, admission and start of a generation.
#include "lib/server/routes/generation_route.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "lib/server/requests/active_generation.h"
#include "lib/server/routes/dispatch.h"
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

bool has_grammar(const GenerationRequest& request) {
    const RequestInput& input = request.inputs.front();
    return input.grammar || input.grammar_for_prompt;
}

void begin_generation(RouteContext& context, const TransactionPointer& transaction,
                      const ModelRequest& asked, GenerationCall&& call, const char* prompt_field) {
    GenerationRequest& request = call.request;
    auto admitted =
        admit(context, transaction, asked, prompt_field, request.inputs, request.num_sequences());
    if (!admitted) return;
    add_ignored_header(transaction, request.ignored);
    auto generation = std::make_shared<ActiveGeneration>(
        std::move(request), call.make_writer, asked.model, transaction, std::move(admitted->permit),
        context.tokenizer_threads, removal_from(context.active));
    context.active.add(generation);
    generation->start(std::move(admitted->prepared));
}

void refuse_overload(const RouteContext& context, const TransactionPointer& transaction) {
    transaction->respond(error_response({.status = context.config.admission.overload_status,
                                         .message = "too many grammars wait to be compiled",
                                         .code = "queue_full",
                                         .retry_after_s = 1,
                                         .type = "overloaded_error"}));
}

}  // namespace

void start_generation(RouteContext& context, const TransactionPointer& transaction,
                      const ReadGenerationCall& read, const char* prompt_field) {
    auto asked = read_model_request(context, transaction);
    if (!asked) return;
    HostedModel& model = *asked->model;
    auto read_call = read(std::move(asked->body), model);
    if (!read_call) return refuse(transaction, read_call.fault());
    if (const auto wrong = check_num_sequences(read_call->request)) {
        return refuse(transaction, *wrong);
    }
    if (!has_grammar(read_call->request)) {
        return begin_generation(context, transaction, *asked, std::move(*read_call), prompt_field);
    }
    // To compile a grammar may take long: the texts of others do not wait for it.
    auto waiting = std::make_shared<GenerationCall>(std::move(*read_call));
    const bool has_room = context.grammar_threads.try_run(
        [&context, transaction, waiting, prompt_field, asked = std::move(*asked)] {
            run_handler(transaction, [&] {
                begin_generation(context, transaction, asked, std::move(*waiting), prompt_field);
            });
        });
    if (!has_room) refuse_overload(context, transaction);
}

}  // namespace nvllm::server
