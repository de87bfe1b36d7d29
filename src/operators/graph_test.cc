// Tiny graphs, event by event: "+x" appears, "-x" goes.
#include "operators/graph.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace steelyard {
namespace {

class GraphTest : public testing::Test {
 protected:
  ValueId tensor(const char* name, bool needs_gradient = true) {
    return graph_.tensor({"", name, ""}, Checked(256), ElementType::kFloat32, needs_gradient);
  }
  // The residual stream that comes in, with a gradient to send back.
  ValueId input() {
    const ValueId x = graph_.input(slot("x", Pile::kActivations), Checked(256),
                                   ElementType::kFloat32, true, true);
    graph_.gradient_slot(x, slot("dx", Pile::kTemporary));
    return x;
  }
  void output(ValueId y) {
    graph_.result(y, slot("y", Pile::kActivations));
    graph_.gradient_slot(y, slot("dy", Pile::kTemporary));
  }
  SlotId slot(const char* name, Pile pile) {
    return book_.slot({"", name, ""}, pile, Checked(256), ElementType::kFloat32);
  }
  // y = f(inputs), keeping `saved`; without backward steps it gives one gradient for each input.
  ValueId apply(const char* name, Few<ValueId, 6> inputs, Few<ValueId, 10> saved,
                Few<BackwardStep, 14> backward = {kGradient0}) {
    const ValueId y = tensor(name);
    Operator operation;
    operation.label = name;
    operation.inputs = inputs;
    operation.outputs = {y};
    operation.saved = saved;
    operation.backward = backward;
    graph_.add(operation);
    return y;
  }
  // The operator that keeps what it makes, as tanh does.
  ValueId apply_keeping_output(const char* name, ValueId x) {
    const ValueId y = tensor(name);
    Operator operation;
    operation.inputs = {x};
    operation.outputs = {y};
    operation.saved = {y};
    operation.backward = {kGradient0};
    graph_.add(operation);
    return y;
  }

  // Gradients have the name of their tensor with a d in front.
  std::string text_of(const std::vector<Event>& events) const {
    std::string text;
    for (const Event& event : events) {
      const Slot& what = book_.program.slot_at(event.slot);
      const bool gradient = std::string(what.rule) == "autograd.input-gradient";
      for (int i = 0; i < std::abs(event.count); ++i)
        text += std::string(text.empty() ? "" : " ") + (event.count > 0 ? "+" : "-") +
                (gradient ? "d" : "") + what.name;
    }
    return text;
  }
  std::string forward() const { return text_of(graph_.forward()); }
  std::string backward(GradientPolicy policy = GradientPolicy::kKeep) const {
    return text_of(graph_.backward(policy));
  }
  std::string kept() const {
    std::string text;
    for (const SlotId id : graph_.kept())
      text += (text.empty() ? "" : " ") + std::string(book_.program.slot_at(id).name);
    return text;
  }

  Workbook<Checked> book_;
  Graph<Checked> graph_{book_};
};

TEST_F(GraphTest, WhatNobodyKeepsGoesAfterItsLastReader) {
  const ValueId a = apply("a", {input()}, {});
  const ValueId b = apply("b", {a}, {});
  output(apply("c", {b}, {}));
  graph_.finish();
  EXPECT_EQ(forward(), "+a +b -a +y -x -b");  // the caller holds x until the layer has returned
  EXPECT_EQ(kept(), "");
}

TEST_F(GraphTest, WhatIsSavedGoesAfterTheBackwardOfItsSaver) {
  const ValueId x = input();
  const ValueId a = apply("a", {x}, {});
  const ValueId b = apply("b", {a}, {a});
  output(apply("c", {b}, {b}));
  graph_.finish();
  EXPECT_EQ(forward(), "+a +b +y -x");
  EXPECT_EQ(kept(), "a b");
  EXPECT_EQ(backward(), "+db -dy -b +da -db -a +dx -da");
}

TEST_F(GraphTest, WhatTwoKeepCountsOnceAndGoesAfterTheEarlierOne) {
  const ValueId a = apply("a", {input()}, {});
  const ValueId b = apply("b", {a}, {a});
  output(apply("c", {b, a}, {a}, {kGradient0, kGradient1}));
  graph_.finish();
  EXPECT_EQ(kept(), "a");
  // the second gradient of a is added to the first in place
  EXPECT_EQ(backward(), "+db +da -dy +da -db -a -da +dx -da");
}

TEST_F(GraphTest, AnOutputThatIsKept) {
  output(apply("c", {apply_keeping_output("t", apply("a", {input()}, {}))}, {}));
  graph_.finish();
  EXPECT_EQ(forward(), "+a +t -a +y -x");
  EXPECT_EQ(kept(), "t");
  EXPECT_EQ(backward(), "+dt -dy +da -dt -t +dx -da");
}

// Liger's kernels: the gradient lies where the tensor was, and goes when the one before has read it.
TEST_F(GraphTest, AGradientOverWhatWasKept) {
  const ValueId a = apply("a", {input()}, {});
  output(apply("b", {a}, {a}, {{BackwardStep::kInPlaceGradient, 0, -1}}));
  graph_.finish();
  EXPECT_EQ(forward(), "+a +y -x");
  EXPECT_EQ(kept(), "a");
  EXPECT_EQ(backward(), "-dy +dx -a");
}

// A loss that has made its gradients in forward: what it kept goes out under the name of what autograd wants.
TEST_F(GraphTest, GradientsThatForwardHasMadeAreHandedOn) {
  GradientSlots slots;
  slots.kept = slot("dw", Pile::kGradients);
  Operator loss;
  const ValueId y = tensor("y"), of_input = tensor("of a", false),
                of_weight = tensor("of w", false);
  loss.inputs = {apply("a", {input()}, {})};
  loss.outputs = {y, of_input, of_weight};
  loss.saved = {of_input, of_weight};
  loss.backward = {{BackwardStep::kHandedOn, 0, -1},
                   kGradient0,
                   {BackwardStep::kHandedOn, 1, -1},
                   {BackwardStep::kParameterGradient, graph_.parameter(slots), -1}};
  graph_.add(loss);
  output(y);
  graph_.finish();
  EXPECT_EQ(kept(), "of a of w");
  EXPECT_EQ(backward(), "-of a +da -of w +dw -dy +dx -da");
  EXPECT_EQ(backward(GradientPolicy::kAdd), "-of a +da -of w +dw -dy -dw +dx -da");
}

// A sum gives one gradient to both of its terms. When f has used it, x's own branch is its only holder: f's gradient is
// added in place, and the buffer leaves as the gradient of x.
TEST_F(GraphTest, AGradientWhoseOtherHolderIsDoneIsAddedInto) {
  const ValueId x = input();
  const ValueId f = apply("f", {x}, {});
  output(apply("sum", {x, f}, {}, {kAlias0, kAlias1}));
  graph_.finish();
  EXPECT_EQ(backward(), "+dx -dx -dy +dx");
}

TEST_F(GraphTest, AGradientHeldTwiceWhileBothReadersWait) {
  const ValueId x = input();
  const ValueId f = apply("f", {x}, {});
  const ValueId g = apply("g", {x}, {});
  output(apply("sum", {f, g}, {}, {kAlias0, kAlias1}));
  graph_.finish();
  EXPECT_EQ(backward(), "+dx +dx -dy -dx");
}

TEST_F(GraphTest, TemporariesLiveAsLongAsTheirOperator) {
  const SlotId scratch = slot("scratch", Pile::kTemporary),
               passing = slot("passing", Pile::kTemporary);
  output(apply("a", {input()}, {},
               {BackwardStep{BackwardStep::kPassing, 0, passing},
                BackwardStep{BackwardStep::kTemporary, 0, scratch}, kGradient0}));
  graph_.finish();
  EXPECT_EQ(backward(), "+passing -passing +scratch +dx -scratch -dy");
}

TEST_F(GraphTest, ParameterGradientsStayAreAddedOrAreWrittenInPlace) {
  GradientSlots slots;
  slots.kept = slot("dw", Pile::kGradients);
  slots.computed = slot("dw16", Pile::kTemporary);
  const int weight = graph_.parameter(slots);
  const ValueId x = input();
  output(apply("a", {x}, {x},
               {BackwardStep{BackwardStep::kParameterGradient, weight, -1}, kGradient0}));
  graph_.finish();
  EXPECT_EQ(backward(GradientPolicy::kKeep), "+dw16 +dx -dy -x +dw -dw16");
  EXPECT_EQ(backward(GradientPolicy::kAdd), "+dw16 +dx -dy -x +dw -dw16 -dw");
  EXPECT_EQ(backward(GradientPolicy::kFused), "+dx -dy -x");
  EXPECT_EQ(graph_.parameter_gradients(), std::vector<SlotId>{slots.kept});
}

// An optimizer that steps at once: its states stay, made where each tensor is stepped first.
TEST_F(GraphTest, TheFirstStepInBackwardMakesStates) {
  GradientSlots slots;
  slots.kept = slot("dw", Pile::kGradients);
  slots.states = {slot("m", Pile::kOptimizerMoments), slot("v", Pile::kOptimizerMoments)};
  slots.stepped = slot("roots", Pile::kTemporary);
  const int weight = graph_.parameter(slots);
  output(apply("a", {input()}, {},
               {BackwardStep{BackwardStep::kParameterGradient, weight, -1}, kGradient0}));
  graph_.finish();
  EXPECT_EQ(backward(GradientPolicy::kFirstStep), "+dw +dx -dy +m +v +roots -roots -dw");
  EXPECT_EQ(backward(GradientPolicy::kAdd), "+dw +dx -dy +roots -roots -dw");
}

TEST_F(GraphTest, APieceKeepsTheWholeStorage) {
  const ValueId packed = apply("packed", {input()}, {});
  const ValueId half = graph_.view(packed, Checked(128));
  Operator split;
  split.inputs = {packed};
  split.outputs = {half};
  split.backward = {kGradient0};
  graph_.add(split);
  output(apply("c", {half}, {half}));
  graph_.finish();
  EXPECT_EQ(kept(), "packed");
  EXPECT_EQ(backward(), "+dpacked -dy -packed +dpacked -dpacked +dx -dpacked");
}

TEST_F(GraphTest, WhatPythonHoldsLivesOn) {
  const ValueId a = apply("a", {input()}, {});
  const ValueId b = apply("b", {a}, {});
  graph_.hold(a);
  const ValueId c = apply("c", {b}, {});
  graph_.hold(a);
  output(apply("d", {c}, {}));
  graph_.finish();
  EXPECT_EQ(forward(), "+a +b +c -a -b +y -x -c");
}

// x -> a -> b -> c with all three kept, in a region.
class RegionTest : public GraphTest {
 protected:
  void build(Region region) {
    const ValueId x = input();
    const ValueId a = apply("a", {x}, {x});
    const ValueId b = apply("b", {a}, {a});
    const ValueId c = apply("c", {b}, {b});
    output(apply("d", {c}, {c}));
    graph_.region(region);
    graph_.finish();
  }
};

TEST_F(RegionTest, KeepsItsInputAndRunsAgain) {
  build({0, 3, false, false});
  EXPECT_EQ(forward(), "+a +b -a +c -b +y");
  EXPECT_EQ(kept(), "x c");  // c is what the next operator keeps, made by the first run
  // d's backward; then the region runs again, whole, and its second c goes at once
  EXPECT_EQ(backward(), "+dc -dy -c +a +b +c -c +db -dc -b +da -db -a +dx -da -x");
}

TEST_F(RegionTest, StopsAfterTheLastTensorThatIsNeeded) {
  build({0, 4, false, true});
  // d keeps c: all but d's own output is made again
  EXPECT_EQ(forward(), "+a +b -a +c -b +y -c");
  EXPECT_EQ(kept(), "x");
}

TEST_F(RegionTest, WithoutEarlyStopTheOutputIsMadeAgain) {
  build({0, 4, false, false});
  EXPECT_EQ(kept(), "x");
  EXPECT_NE(backward().find("+y -y"), std::string::npos) << backward();
}

TEST_F(RegionTest, DiscardsItsOutputForItsReaders) {
  build({0, 3, true, true});
  EXPECT_EQ(forward(), "+a +b -a +c -b +y -c");
  EXPECT_EQ(kept(), "x");
  // it runs again before the backward of the reader that needs its output
  EXPECT_EQ(backward(), "+a +b +c +dc -dy -c +db -dc -b +da -db -a +dx -da -x");
}

TEST_F(RegionTest, AnOuterRegionSwallowsTheInner) {
  const ValueId x = input();
  const ValueId a = apply("a", {x}, {x});
  const ValueId b = apply("b", {a}, {a});
  graph_.region({1, 2, false, true});
  output(apply("c", {b}, {b}));
  graph_.region({0, 3, false, true});
  graph_.finish();
  EXPECT_EQ(kept(), "x");
}

TEST_F(RegionTest, AutogradKeepsInputsBeforeItLaunches) {
  // Of what runs again only the kernels in front of the last keeper are launched; d keeps c, its input.
  build({0, 4, false, true});
  int again = 0;
  for (const Kernel& kernel : graph_.backward_kernels(GradientPolicy::kKeep))
    if (kernel.again) ++again;
  EXPECT_EQ(again, 3);
}

class AnyRegion : public RegionTest, public testing::WithParamInterface<Region> {};

TEST_P(AnyRegion, LeavesTheOutputAndTheGradientOfTheInput) {
  build(GetParam());
  std::map<std::string, int> alive = {{"x", 1}, {"dy", 1}};
  const auto play = [&](const std::vector<Event>& events) {
    for (const Event& event : events) {
      int& count = alive[book_.program.slot_at(event.slot).name];
      count += event.count;
      EXPECT_GE(count, 0) << book_.program.slot_at(event.slot).name;
    }
  };
  play(graph_.forward());
  play(graph_.backward(GradientPolicy::kKeep));
  for (const auto& [name, count] : alive) EXPECT_EQ(count, name == "y" || name == "dx") << name;
}

INSTANTIATE_TEST_SUITE_P(Regions, AnyRegion,
                         testing::Values(Region{0, 1, false, true}, Region{0, 3, true, true},
                                         Region{1, 3, false, false}, Region{0, 4, false, true},
                                         Region{2, 4, true, false}, Region{1, 2, true, true},
                                         Region{0, 4, true, false}));

}  // namespace
}  // namespace steelyard
