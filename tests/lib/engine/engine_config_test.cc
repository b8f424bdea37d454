// Defaults of a configuration that depend on the model and on the device.
#include "lib/engine/engine_config.h"

#include <doctest/doctest.h>

#include "lib/checkpoint/model_config.h"

using namespace nvllm;

TEST_CASE("a step holds more on a device than on the CPU, unless somebody says how much") {
    const ModelConfig model;
    const EngineConfig open;
    const EngineConfig on_cpu = fitted_to(model, false, open);
    const EngineConfig on_device = fitted_to(model, true, open);
    CHECK(on_cpu.scheduling.max_num_batched_tokens == kCpuSteps.batched_tokens);
    CHECK(on_device.scheduling.max_num_batched_tokens == kDeviceSteps.batched_tokens);
    CHECK(kDeviceSteps.batched_tokens > kCpuSteps.batched_tokens);

    EngineConfig said;
    said.scheduling.max_num_batched_tokens = 100;
    CHECK(fitted_to(model, false, said).scheduling.max_num_batched_tokens == 100);
    CHECK(fitted_to(model, true, said).scheduling.max_num_batched_tokens == 100);
}

TEST_CASE("prompts take little of a step beside answers that somebody reads as they come") {
    const ModelConfig model;
    EngineConfig config;
    CHECK(fitted_to(model, false, config).scheduling.mixed_prefill_tokens == 0);
    CHECK(fitted_to(model, true, config).scheduling.mixed_prefill_tokens == 0);
    config.scheduling.answers_are_streamed = true;
    CHECK(fitted_to(model, false, config).scheduling.mixed_prefill_tokens ==
          kCpuSteps.mixed_prefill_tokens);
    CHECK(fitted_to(model, true, config).scheduling.mixed_prefill_tokens ==
          kDeviceSteps.mixed_prefill_tokens);
    config.scheduling.mixed_prefill_tokens = 0;
    CHECK(fitted_to(model, true, config).scheduling.mixed_prefill_tokens == 0);
}

TEST_CASE("an encoder's step has room for its longest prompt") {
    ModelConfig model;
    model.encoder = true;
    model.max_positions = 2000;
    EngineConfig config;
    CHECK(fitted_to(model, false, config).scheduling.max_num_batched_tokens == 2000);
    CHECK(fitted_to(model, true, config).scheduling.max_num_batched_tokens ==
          kDeviceSteps.batched_tokens);
    config.memory.max_model_len = 300;
    CHECK(fitted_to(model, false, config).scheduling.max_num_batched_tokens ==
          kCpuSteps.batched_tokens);
    CHECK_FALSE(fitted_to(model, false, config).scheduling.scheduler.enable_chunked_prefill);
    CHECK_FALSE(fitted_to(model, false, config).kv_cache.cache.enable_prefix_caching);
}

TEST_CASE("the scheduler gets the token budgets that were filled in") {
    const ModelConfig model;
    EngineConfig config;
    config.scheduling.answers_are_streamed = true;
    const SchedulerConfig on_cpu = fitted_to(model, false, config).scheduling.scheduler;
    CHECK(on_cpu.max_num_batched_tokens == kCpuSteps.batched_tokens);
    CHECK(on_cpu.mixed_prefill_tokens == kCpuSteps.mixed_prefill_tokens);
    config.scheduling.max_num_batched_tokens = 100;
    config.scheduling.mixed_prefill_tokens = 7;
    const SchedulerConfig given = fitted_to(model, true, config).scheduling.scheduler;
    CHECK(given.max_num_batched_tokens == 100);
    CHECK(given.mixed_prefill_tokens == 7);
}
