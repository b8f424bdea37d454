// Bytes as messages between engine and worker: the first byte says of which kind. What is taken is
// written as the very same bytes.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "lib/execute/wire.h"

namespace {

using namespace nvllm;

template <typename Message>
void read_and_write(std::span<const uint8_t> payload) {
    Bytes frame;
    write_frame(read_payload<Message>(payload), frame);
    if (!std::ranges::equal(payload, std::span(frame).subspan(kFrameHeadBytes))) std::abort();
}

void read_as(uint8_t kind, std::span<const uint8_t> payload) {
    switch (kind % 9) {
        case 0:
            return read_and_write<BatchPlan>(payload);
        case 1:
            return read_and_write<StepResult>(payload);
        case 2:
            return read_and_write<WorkerSetup>(payload);
        case 3:
            return read_and_write<WorkerReady>(payload);
        case 4:
            return read_and_write<WorkerFault>(payload);
        case 5:
            return read_and_write<StepOfOthers>(payload);
        case 6:
            return read_and_write<RankProbe>(payload);
        case 7:
            return read_and_write<RankRates>(payload);
        default:
            return read_and_write<ForgetSequences>(payload);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::span<const uint8_t> bytes(data, size);
    try {
        read_as(bytes[0], bytes.subspan(1));
    } catch (const Error&) {
    }
    if (size < kFrameHeadBytes) return 0;
    try {
        (void)read_frame_head(bytes.first<kFrameHeadBytes>());
    } catch (const Error&) {
    }
    return 0;
}
