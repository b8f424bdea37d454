// Outputs of requests to their listeners. Owned by the engine thread.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "lib/engine/engine.h"
#include "lib/engine/loop/engine_clock.h"
#include "lib/engine/output_processor.h"

namespace nvllm {

class OutputDelivery {
  public:
    explicit OutputDelivery(const EngineClock& clock) : clock_(clock) {}

    // Before the first request. Null: outputs have no text.
    void use_tokenizer(std::shared_ptr<const Tokenizer> tokenizer);
    OutputProcessor& outputs() { return *outputs_; }

    // The listener of a new request. add() or refuse() follows.
    void open(RequestId request, OutputListener listener);
    void add(const Request& request, std::span<const SequenceId> sequences);
    // Every choice of the request ends with the fault.
    void refuse(const Request& request, const Fault& fault);
    // Ends the sequences of the request that still run; emit() delivers that.
    void finish(RequestId request, FinishReason reason, std::optional<Fault> fault = {});
    // Ends every open request with the fault and delivers that.
    void finish_all(const Fault& fault);
    // Delivers the new output of the request, if there is any.
    void emit(RequestId request);

    // How many requests have finished since the last call.
    size_t take_num_finished();
    // Destroys the listeners without a call. A listener may own the engine's owner, so the engine
    // thread must have ended.
    void drop_listeners();

  private:
    void deliver(RequestOutput&& output);

    const EngineClock& clock_;
    std::unique_ptr<OutputProcessor> outputs_;
    std::unordered_map<RequestId, OutputListener> listeners_;
    size_t num_finished_ = 0;
};

}  // namespace nvllm
