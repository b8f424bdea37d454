// A request is open from its listener's arrival to its last output.
#include "lib/engine/loop/output_delivery.h"

#include <utility>

namespace nvllm {

void OutputDelivery::use_tokenizer(std::shared_ptr<const Tokenizer> tokenizer) {
    outputs_ = std::make_unique<OutputProcessor>(std::move(tokenizer));
}

void OutputDelivery::open(RequestId request, OutputListener listener) {
    listeners_.emplace(request, std::move(listener));
}

void OutputDelivery::add(const Request& request, std::span<const SequenceId> sequences) {
    outputs_->add(request, sequences);
}

void OutputDelivery::refuse(const Request& request, const Fault& fault) {
    RequestOutput output;
    output.request_id = request.id;
    output.times.arrival_s = request.arrival_s;
    output.times.finished_s = output.times.output_s = clock_.now_s();
    output.num_prompt_tokens = static_cast<int32_t>(request.prompt_token_ids.size());
    for (int32_t index = 0; index < request.sampling.n; ++index) {
        ContinuationOutput failed;
        failed.index = index;
        failed.finish_reason = FinishReason::error;
        failed.fault = fault;
        output.continuations.push_back(std::move(failed));
    }
    output.finished = true;
    deliver(std::move(output));
}

void OutputDelivery::finish(RequestId request, FinishReason reason, std::optional<Fault> fault) {
    for (const SequenceId sequence : outputs_->active(request)) {
        outputs_->finish(sequence, reason, fault);
    }
}

void OutputDelivery::finish_all(const Fault& fault) {
    std::vector<RequestId> open;
    for (const auto& [request, listener] : listeners_) open.push_back(request);
    for (const RequestId request : open) {
        finish(request, FinishReason::error, fault);
        emit(request);
    }
}

void OutputDelivery::emit(RequestId request) {
    if (std::optional<RequestOutput> output = outputs_->take(request, clock_.now_s())) {
        deliver(std::move(*output));
    }
}

void OutputDelivery::deliver(RequestOutput&& output) {
    const auto listener = listeners_.find(output.request_id);
    if (listener == listeners_.end()) return;
    const bool finished = output.finished;
    listener->second(std::move(output));
    if (!finished) return;
    listeners_.erase(listener);
    ++num_finished_;
}

size_t OutputDelivery::take_num_finished() { return std::exchange(num_finished_, 0); }

void OutputDelivery::drop_listeners() {
    const std::unordered_map<RequestId, OutputListener> dropped = std::exchange(listeners_, {});
}

}  // namespace nvllm
