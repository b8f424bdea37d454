// What a configuration leaves open, filled in for a model and a device.
#include "lib/engine/engine_config.h"

#include <doctest/doctest.h>

#include "lib/checkpoint/model_config.h"

using namespace nvllm;

TEST_CASE("a step holds more on a device than on the CPU, unless somebody says how much") {
    const ModelConfig model;
    const EngineConfig open;
    const EngineConfig on_cpu = fitted_to(model, false, open);
    const EngineConfig on_device = fitted_to(model, true, open);
    CHECK(on_cpu.max_num_batched_tokens == kCpuSteps.batched_tokens);
    CHECK(on_device.max_num_batched_tokens == kDeviceSteps.batched_tokens);
    CHECK(kDeviceSteps.batched_tokens > kCpuSteps.batched_tokens);

    EngineConfig said;
    said.max_num_batched_tokens = 100;
    CHECK(fitted_to(model, false, said).max_num_batched_tokens == 100);
    CHECK(fitted_to(model, true, said).max_num_batched_tokens == 100);
}

TEST_CASE("prompts take little of a step beside answers that somebody reads as they come") {
    const ModelConfig model;
    EngineConfig config;
    CHECK(fitted_to(model, false, config).mixed_prefill_tokens == 0);
    CHECK(fitted_to(model, true, config).mixed_prefill_tokens == 0);
    config.answers_are_streamed = true;
    CHECK(fitted_to(model, false, config).mixed_prefill_tokens == kCpuSteps.mixed_prefill_tokens);
    CHECK(fitted_to(model, true, config).mixed_prefill_tokens == kDeviceSteps.mixed_prefill_tokens);
    config.mixed_prefill_tokens = 0;
    CHECK(fitted_to(model, true, config).mixed_prefill_tokens == 0);
}

TEST_CASE("an encoder's step has room for its longest prompt") {
    ModelConfig model;
    model.encoder = true;
    model.max_positions = 2000;
    EngineConfig config;
    CHECK(fitted_to(model, false, config).max_num_batched_tokens == 2000);
    CHECK(fitted_to(model, true, config).max_num_batched_tokens == kDeviceSteps.batched_tokens);
    config.max_model_len = 300;
    CHECK(fitted_to(model, false, config).max_num_batched_tokens == kCpuSteps.batched_tokens);
    CHECK_FALSE(fitted_to(model, false, config).enable_chunked_prefill);
    CHECK_FALSE(fitted_to(model, false, config).enable_prefix_caching);
}
