// The enumerations of job.h are named by the run file's table: one spelling for reading, writing and printing.
#include "job/job.h"
#include "job/keys.h"

namespace steelyard {
namespace {

template <class Name>
std::string_view name_in(KeyId id, Name name) {
  return key_of(id).names[static_cast<std::size_t>(name)];
}

}  // namespace

std::string_view name_of(Engine engine) { return name_in(KeyId::kEngine, engine); }
std::string_view name_of(Implementation implementation) {
  return name_in(KeyId::kImplementation, implementation);
}
std::string_view name_of(AttentionKernel kernel) { return name_in(KeyId::kAttention, kernel); }
std::string_view name_of(LossKernel kernel) { return name_in(KeyId::kLoss, kernel); }
std::string_view name_of(KernelLibrary library) { return name_in(KeyId::kKernels, library); }
std::string_view name_of(OptimizerForm form) { return name_in(KeyId::kOptimizerForm, form); }
std::string_view name_of(PipelineSchedule schedule) { return name_in(KeyId::kSchedule, schedule); }
std::string_view name_of(VocabularyLayers vocabulary) {
  return name_in(KeyId::kVocabulary, vocabulary);
}
std::string_view name_of(Method method) { return name_in(KeyId::kMethod, method); }
std::string_view name_of(Reference reference) { return name_in(KeyId::kReference, reference); }
std::string_view name_of(Generator generator) {
  return name_in(KeyId::kGenerationEngine, generator);
}
std::string_view name_of(ContextMethod method) { return name_in(KeyId::kContextMethod, method); }
std::string_view name_of(ExpertDispatcher dispatcher) {
  return name_in(KeyId::kExpertDispatcher, dispatcher);
}
std::string_view name_of(RecomputeMode mode) { return name_in(KeyId::kRecomputeMode, mode); }
std::string_view name_of(RecomputeModule module) {
  return name_in(KeyId::kRecomputeModules, module);
}
std::string_view name_of(OffloadTarget target) { return name_in(KeyId::kOffloadOptimizer, target); }
std::string_view name_of(CheckpointSave save) { return name_in(KeyId::kCheckpointSave, save); }

OptimizerForm form_of(const Training& training) {
  if (training.optimizer.only_form == "loop") return OptimizerForm::kLoop;
  if (training.optimizer.only_form == "fused") return OptimizerForm::kFused;
  return training.optimizer_form;
}

bool counts_steps_on_device(const Training& training) {
  return form_of(training) == OptimizerForm::kFused && training.optimizer.step_on_device_when_fused;
}

}  // namespace steelyard
