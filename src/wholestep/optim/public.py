"""Every public name of `ws.optim`; the functions check the numbers that they give the classes."""

from wholestep.optim.accumulation import Accumulate as Accumulate
from wholestep.optim.adam_kin import Adamax as Adamax, Lamb as Lamb, Lion as Lion, Nadam as Nadam, Radam as Radam
from wholestep.optim.adaptive import (
    Adadelta as Adadelta,
    Adagrad as Adagrad,
    Madgrad as Madgrad,
    Rmsprop as Rmsprop,
)
from wholestep.optim.averaging import Ema as Ema, Lookahead as Lookahead, average as average
from wholestep.optim.beliefs import (
    Adabelief as Adabelief,
    Adan as Adan,
    Ademamix as Ademamix,
    Adopt as Adopt,
    Yogi as Yogi,
)
from wholestep.optim.chaining import (
    AddDecayedWeights as AddDecayedWeights,
    Chain as Chain,
    ClipByGlobalNorm as ClipByGlobalNorm,
    ClipByValue as ClipByValue,
    Normalize as Normalize,
    chain as chain,
    global_norm as global_norm,
)
from wholestep.optim.compound import Join as Join, Scaled as Scaled, Warmup as Warmup
from wholestep.optim.conditioning import (
    AdaptiveClip as AdaptiveClip,
    Centralize as Centralize,
    ClipByBlockRms as ClipByBlockRms,
    ZeroNans as ZeroNans,
)
from wholestep.optim.curvature import Sophia as Sophia
from wholestep.optim.descent import Asgd as Asgd, Sgd as Sgd
from wholestep.optim.distance import DadaptAdamw as DadaptAdamw, Dog as Dog, Prodigy as Prodigy
from wholestep.optim.factored import Adafactor as Adafactor, Sm3 as Sm3
from wholestep.optim.grouping import Groups as Groups, groups as groups
from wholestep.optim.hyper import public_function as _checked
from wholestep.optim.layerwise import Lars as Lars, Novograd as Novograd
from wholestep.optim.moments import Adam as Adam, Adamw as Adamw
from wholestep.optim.orthogonal import Muon as Muon, muon as muon
from wholestep.optim.plateaus import Plateau as Plateau
from wholestep.optim.preconditioned import Shampoo as Shampoo
from wholestep.optim.projections import (
    Hypercube as Hypercube,
    Interval as Interval,
    L1Ball as L1Ball,
    L1Sphere as L1Sphere,
    L2Ball as L2Ball,
    L2Sphere as L2Sphere,
    LinfBall as LinfBall,
    NonNegative as NonNegative,
    Projected as Projected,
    Simplex as Simplex,
)
from wholestep.optim.protocol import Optimizer as Optimizer, Transform as Transform
from wholestep.optim.quasi_newton import Lbfgs as Lbfgs
from wholestep.optim.resilient import Rprop as Rprop
from wholestep.optim.rotated import Soap as Soap
from wholestep.optim.schedules import (
    Constant as Constant,
    Cosine as Cosine,
    CosineRestarts as CosineRestarts,
    Cyclic as Cyclic,
    Exponential as Exponential,
    InverseSqrt as InverseSqrt,
    LinearSchedule as LinearSchedule,
    MultiStep as MultiStep,
    OneCycle as OneCycle,
    Piecewise as Piecewise,
    Polynomial as Polynomial,
    Schedule as Schedule,
    StepDecay as StepDecay,
)
from wholestep.optim.sharpness import Sam as Sam
from wholestep.optim.signs import Fromage as Fromage, Signum as Signum
from wholestep.optim.unscheduled import ScheduleFreeAdamw as ScheduleFreeAdamw, ScheduleFreeSgd as ScheduleFreeSgd

accumulate = _checked(Accumulate)
adabelief = _checked(Adabelief)
adadelta = _checked(Adadelta)
adafactor = _checked(Adafactor)
adagrad = _checked(Adagrad)
adam = _checked(Adam)
adamax = _checked(Adamax)
adamw = _checked(Adamw)
adan = _checked(Adan)
adaptive_clip = _checked(AdaptiveClip)
add_decayed_weights = _checked(AddDecayedWeights)
ademamix = _checked(Ademamix)
adopt = _checked(Adopt)
asgd = _checked(Asgd)
centralize = _checked(Centralize)
clip_by_block_rms = _checked(ClipByBlockRms)
clip_by_global_norm = _checked(ClipByGlobalNorm)
clip_by_value = _checked(ClipByValue)
constant = _checked(Constant)
cosine = _checked(Cosine)
cosine_restarts = _checked(CosineRestarts)
cyclic = _checked(Cyclic)
dadapt_adamw = _checked(DadaptAdamw)
dog = _checked(Dog)
ema = _checked(Ema)
exponential = _checked(Exponential)
fromage = _checked(Fromage)
hypercube = _checked(Hypercube)
interval = _checked(Interval)
inverse_sqrt = _checked(InverseSqrt)
join = _checked(Join)
l1_ball = _checked(L1Ball)
l1_sphere = _checked(L1Sphere)
l2_ball = _checked(L2Ball)
l2_sphere = _checked(L2Sphere)
lamb = _checked(Lamb)
lars = _checked(Lars)
lbfgs = _checked(Lbfgs)
linear = _checked(LinearSchedule)
linf_ball = _checked(LinfBall)
lion = _checked(Lion)
lookahead = _checked(Lookahead)
madgrad = _checked(Madgrad)
multi_step = _checked(MultiStep)
nadam = _checked(Nadam)
non_negative = _checked(NonNegative)
normalize = _checked(Normalize)
novograd = _checked(Novograd)
one_cycle = _checked(OneCycle)
piecewise = _checked(Piecewise)
plateau = _checked(Plateau)
polynomial = _checked(Polynomial)
prodigy = _checked(Prodigy)
projected = _checked(Projected)
radam = _checked(Radam)
rmsprop = _checked(Rmsprop)
rprop = _checked(Rprop)
sam = _checked(Sam)
scaled = _checked(Scaled)
schedule_free_adamw = _checked(ScheduleFreeAdamw)
schedule_free_sgd = _checked(ScheduleFreeSgd)
sgd = _checked(Sgd)
shampoo = _checked(Shampoo)
signum = _checked(Signum)
simplex = _checked(Simplex)
sm3 = _checked(Sm3)
soap = _checked(Soap)
sophia = _checked(Sophia)
step_decay = _checked(StepDecay)
warmup = _checked(Warmup)
yogi = _checked(Yogi)
zero_nans = _checked(ZeroNans)
