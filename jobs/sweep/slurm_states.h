// What Slurm knows of the tasks of job arrays.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace longwave {

struct SlurmState {
  std::string job;    // "123_4"
  std::string state;  // as squeue or sacct writes it: PENDING, RUNNING, PREEMPTED, TIMEOUT, OUT_OF_MEMORY, NODE_FAIL, ...
};

// Of the latest array that has the task, by task. Asks squeue, then sacct for what squeue has forgotten; where neither answers,
// empty. A task that waits for another attempt is REQUEUED.
std::map<std::int64_t, SlurmState> slurm_states(const std::vector<std::string>& arrays);

// Of single jobs, by their SLURM_JOB_ID, from the list of ended jobs (sacct --completion): on clusters whose sacct has no
// database. It does not know of arrays.
std::map<std::string, std::string> completion_states(const std::vector<std::string>& jobs);

}  // namespace longwave
