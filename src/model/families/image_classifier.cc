#include "model/families/image_classifier.h"

#include "model/modules.h"

namespace steelyard {

void add_image_classifier(Config& config, Architecture& model, Checked hidden) {
  const Checked classes =
      config.size_or("num_labels", config.count_members("id2label").value_or(2));
  model.vocabulary = classes.value();
  model.head = add_linear(model.head_parameters, "classifier", hidden, classes,
                          {.bias = true, .role = TensorRole::kHead});
  Checked beside = 0;
  for (const int index : {model.head.weight_index, model.head.bias_index}) {
    ParameterTensor& tensor = model.head_parameters[static_cast<std::size_t>(index)];
    tensor.beside_total = true;
    beside += Checked(elements_of(tensor));
  }
  model.beside_total.push_back({"classifier", beside.value()});
}

}  // namespace steelyard
