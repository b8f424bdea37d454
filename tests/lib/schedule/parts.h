// The parts of a scheduler without the scheduler, for tests of single parts.
#pragma once

#include <memory>
#include <vector>

#include "lib/schedule/planning/admission.h"
#include "lib/schedule/planning/backpressure.h"
#include "lib/schedule/planning/beam_scheduler.h"
#include "lib/schedule/planning/cache_resizer.h"
#include "lib/schedule/planning/draft_planner.h"
#include "lib/schedule/planning/remote_blocks.h"
#include "lib/schedule/planning/sequence_finisher.h"
#include "lib/schedule/planning/time_slicer.h"
#include "tests/lib/schedule/simulation.h"

namespace nvllm {

struct Parts {
    explicit Parts(const SchedulerConfig& config = small_config(),
                   const CacheConfig& cache_config = small_cache())
        : cache(cache_config),
          context{.config = config, .policy = find_policy(config.policy), .cache = cache},
          waiting(context.policy),
          running(config.max_num_seqs),
          remote(context, requests, waiting, running, plans, update),
          preemptor(context, waiting, running, update),
          backpressure(requests, waiting, running, preemptor),
          finisher(context, requests, waiting, running, update, remote, backpressure),
          admission(context, waiting, running, preemptor, backpressure, update),
          slicer(context, waiting, running, preemptor),
          resizer(context, requests, update, remote, preemptor) {}

    // The first sequence of a new request waits.
    ScheduledSequence& add(const Request& request) {
        const std::shared_ptr<ScheduledRequest> shared = requests.add_request(request);
        const SequenceId id = requests.next_id();
        ScheduledSequence& added = requests.add_sequence(std::make_unique<ScheduledSequence>(
            ScheduledSequence{.sequence = Sequence::waiting(request, id, 0),
                              .cache = SequenceBlocks(cache, CacheKeyExtras{}, id),
                              .request = shared,
                              .candidates = {},
                              .unsent_tokens = {},
                              .lease_end_s = {},
                              .drafts = {}}));
        added.sequence.longest_length =
            added.sequence.num_tokens() + request.sampling.max_tokens.value_or(0);
        waiting.add(added, context.now_s);
        return added;
    }

    // A waiting sequence runs and has computed its prompt.
    void run(ScheduledSequence& scheduled) {
        waiting.remove(scheduled);
        Sequence& sequence = scheduled.sequence;
        cache.admit(scheduled.cache, {}, sequence.num_tokens(), context.config.largest_step(), 0);
        sequence.start(0, context.now_s);
        sequence.plan(sequence.num_tokens());
        const std::vector<int32_t> sampled{7};
        sequence.commit(sequence.num_tokens(), sampled, context.now_s);
        cache.commit(scheduled.cache, sequence.token_ids, sequence.num_computed);
        scheduled.is_registered = true;
        running.add(scheduled);
    }
    ScheduledSequence& add_running(const Request& request) {
        ScheduledSequence& added = add(request);
        run(added);
        return added;
    }

    PlanBuilder builder(const PlanLimits& limits = {}) const {
        return {context.config, context.config.max_num_batched_tokens, limits};
    }

    CacheManager cache;
    SchedulingContext context;
    RequestTable requests;
    WaitingQueue waiting;
    RunningSet running;
    WorkerUpdate update;
    PlansInFlight plans;
    RemoteBlocks remote;
    Preemptor preemptor;
    Backpressure backpressure;
    SequenceFinisher finisher;
    Admission admission;
    TimeSlicer slicer;
    CacheResizer resizer;
};

}  // namespace nvllm
