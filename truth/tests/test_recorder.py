"""Cases that a hand can count. Run with the pinned environment: python -m pytest truth/tests"""

import torch
from recorder.history import History, rounded
from recorder.owners import Owners
from recorder.record import Recorder

MIB = 2**20


def spans(*functions):
    """What each function did, after one warm-up of all that is not recorded."""
    history = History(torch)
    for function in functions:
        function()
    history.start()
    history.seed()
    history.span(-1)
    found = []
    for index, function in enumerate(functions):
        function()
        found.append(history.span(index))
    history.stop()
    return found


def sizes(span, sign=1):
    return [s.requested for direction, s in span.events if direction == sign]


def weight(*shape, dtype=torch.float32):
    return torch.empty(*shape, device="cuda", dtype=dtype, requires_grad=True)


def test_the_device_is_there_and_computes_nothing():
    assert torch.cuda.get_device_capability() == (9, 0)
    assert torch.ones((), device="cuda").item() == 0
    assert bool(torch.ones(3, device="cuda").all())


def test_sizes_are_rounded_up_to_blocks():
    assert [rounded(n) for n in (1, 512, 513, 4096)] == [512, 512, 1024, 4096]


def test_an_allocation_and_its_end():
    def two_then_none():
        a = torch.empty(1000, device="cuda")
        b = torch.empty(MIB, dtype=torch.uint8, device="cuda")
        del a, b
    span, = spans(two_then_none)
    assert sizes(span) == [4000, MIB] and sizes(span, -1) == [4000, MIB]
    assert span.peak == 4096 + MIB + sum(s.bytes for s in span.start.values())


def test_views_allocate_nothing():
    x = torch.empty(64, 64, device="cuda")
    span, = spans(lambda: x.t()[1:].transpose(0, 1).unsqueeze(0).expand(5, 64, 63))
    assert sizes(span) == []


def test_what_a_product_keeps():
    """y = x W: forward makes y, backward makes dW and dx; x and W are only referred to."""
    x, w = weight(256, 512), weight(512, 1024)
    state = {}

    def forward():
        state["y"] = x @ w

    def backward():
        state.pop("y").backward(gradient)
        x.grad = w.grad = None

    gradient = torch.empty(256, 1024, device="cuda")
    first, second = spans(forward, backward)
    assert sizes(first) == [256 * 1024 * 4]
    assert sorted(sizes(second)) == sorted([256 * 512 * 4, 512 * 1024 * 4])


def test_a_gradient_is_taken_not_copied_and_added_in_place():
    w = weight(512, 512)
    x = torch.empty(8, 512, device="cuda")
    state = {}

    def forward():
        state["loss"] = (x @ w).sum()

    def backward():
        state.pop("loss").backward()

    w.grad = None
    span = spans(forward, backward)[1]  # the warm-up already made w.grad: it is added to, and the new one goes
    large = [s for s in sizes(span) if s == 512 * 512 * 4]
    gone = [s for s in sizes(span, -1) if s == 512 * 512 * 4]
    assert len(large) == 1 and len(gone) == 1


def test_softmax_keeps_its_result_and_exp_too():
    x = weight(1024, 1024)
    kept = {}

    def forward():
        kept["y"] = x.softmax(-1).exp()

    span, = spans(forward)
    alive = [s.requested for s in span.end.values() if s.phase == 0]
    assert alive == [4 * MIB, 4 * MIB]


def test_adam_makes_two_moments_and_foreach_a_list_of_square_roots():
    parameters = [weight(256, 256), weight(1000)]
    for p in parameters:
        p.grad = torch.empty_like(p)
    for form, temporaries in (("foreach", 256 * 256 * 4 + 4000), ("fused", 0)):
        optimizer = torch.optim.AdamW(parameters, foreach=form == "foreach", fused=form == "fused")
        optimizer.step()
        span, = spans(optimizer.step)
        assert sum(sizes(span)) == temporaries
        state = optimizer.state[parameters[0]]
        assert state["step"].is_cuda == (form == "fused")


def test_gradients_that_meet_are_added_in_place_unless_one_is_a_view():
    """torch/csrc/autograd/input_buffer.cpp: in place when nobody else holds the storage; a view holds its base."""
    x = weight(512, 512)
    state = {}

    def backward():
        state.pop("loss").backward()
        x.grad = None

    def plain():
        y = x * 1.0
        state["loss"] = (y.exp() + y.sin()).sum()

    def viewed():
        y = x * 1.0
        state["loss"] = (y.view(-1).exp().view(512, 512) + y.t().sin().t()).sum()

    full = 512 * 512 * 4
    in_place = sizes(spans(plain, backward)[1]).count(full)
    a_view = sizes(spans(viewed, backward)[1]).count(full)
    assert a_view == in_place + 1


def test_the_owners_step_allocates_what_the_steady_one_does():
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    recorder = Recorder({"model": "hand"})
    with recorder.phase("load"):
        recorder.models = [model]
    for _ in recorder.steps(model, optimizer):
        with recorder.phase("forward"):
            x = torch.empty(64, 512, device="cuda")
            recorder.inputs = [x]
            loss = model(x).sum()
        with recorder.phase("backward"):
            loss.backward()
            recorder.inputs = []
            del loss, x
        with recorder.phase("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
    record = recorder.record(sequence=True)
    assert record["owners_match_steady"] and record["unknown_frees"] == 0
    saved = {(row["owner"], row["requested_bytes"]) for row in record["saved_after_forward"]}
    # Linear's input, GELU's input, and its output for the second Linear; the second's output went with the sum.
    assert {("0", 64 * 2048 * 4), ("1", 64 * 2048 * 4)} <= saved and ("2", 64 * 512 * 4) not in saved
    steady = {row["phase"]: row for row in record["phases"] if row["step"] == "steady"}
    parameters = sum(rounded(p.numel() * 4) for p in model.parameters())
    assert steady["optimizer"]["piles"]["parameters"] == parameters
    assert steady["optimizer"]["piles"]["optimizer_state"] == 2 * parameters
    assert steady["optimizer"]["piles"]["gradients"] == parameters
    for row in record["phases"]:
        assert sum(row["piles"].values()) == row["allocated_bytes"] <= row["torch"]["allocated_bytes"]
    assert sum(len(p["events"]) for p in record["sequence"]["phases"]) > 20


def test_owners_name_modules_in_both_directions():
    model = torch.nn.Sequential(torch.nn.Linear(256, 1024, bias=False), torch.nn.ReLU()).cuda()
    x = torch.empty(32, 256, device="cuda")
    history = History(torch)
    history.start()
    history.span(-1)
    with Owners([model]):
        loss = model(x).sum()
        forward = history.span(0)
        loss.backward()
        backward = history.span(1)
    history.stop()
    assert ("0", "mm", 32 * 1024 * 4) in {(s.owner, s.operator, s.requested) for _, s in forward.events}
    assert ("0", "MmBackward0", 256 * 1024 * 4) in {(s.owner, s.operator, s.requested) for _, s in backward.events}
