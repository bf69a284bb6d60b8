"""Forces, energies and steps of OpenMM on its HIP platform, compared with its reference on the processor.

Without an argument the names of the tests are printed, one a line; with a name that test is run.
"""

import sys

import numpy as np

SIDE = 3.0


def lattice(count):
    edge = round(np.ceil(count ** (1 / 3)))
    cells = np.mgrid[0:edge, 0:edge, 0:edge].reshape(3, -1).T[:count]
    return (cells + 0.5) * SIDE / edge + np.random.default_rng(7).random((count, 3)) * 0.05


def particles(openmm, count):
    system = openmm.System()
    system.setDefaultPeriodicBoxVectors((SIDE, 0, 0), (0, SIDE, 0), (0, 0, SIDE))
    for _ in range(count):
        system.addParticle(20)
    return system


def charges(method):
    def make(openmm):
        system = particles(openmm, 64)
        force = openmm.NonbondedForce()
        force.setNonbondedMethod(getattr(force, method))
        for i in range(64):
            force.addParticle(0.5 if i % 2 else -0.5, 0.3, 0.5)
        system.addForce(force)
        return system, lattice(64)

    return make


def bonds(openmm):
    system = particles(openmm, 60)
    stretch, bend, twist = openmm.HarmonicBondForce(), openmm.HarmonicAngleForce(), openmm.PeriodicTorsionForce()
    for i in range(0, 56, 2):
        stretch.addBond(i, i + 1, 0.3, 1000)
        bend.addAngle(i, i + 1, i + 2, 1.9, 50)
        twist.addTorsion(i, i + 1, i + 2, i + 3, 3, 0.2, 4)
    for force in (stretch, bend, twist):
        system.addForce(force)
    return system, lattice(60)


def formulas(openmm):
    system = particles(openmm, 60)
    born = openmm.CustomGBForce()
    born.addPerParticleParameter("q")
    born.addComputedValue("B", "q1*exp(-r)", born.ParticlePair)
    born.addEnergyTerm("B^2+q", born.SingleParticle)
    triples = openmm.CustomManyParticleForce(3, "1e-3/(r12*r13*r23); r12=distance(p1,p2); r13=distance(p1,p3); r23=distance(p2,p3)")
    triples.setNonbondedMethod(triples.CutoffPeriodic)
    triples.setCutoffDistance(0.8)
    field = openmm.CustomExternalForce("0.5*x^2+y*y*z")
    for i in range(60):
        born.addParticle([0.1 * (i % 3)])
        triples.addParticle([])
        field.addParticle(i, [])
    for force in (born, triples, field):
        system.addForce(force)
    return system, lattice(60)


def born(openmm):
    system = particles(openmm, 50)
    force = openmm.GBSAOBCForce()
    for i in range(50):
        force.addParticle(0.3 if i % 2 else -0.3, 0.15, 0.8)
    system.addForce(force)
    return system, lattice(50)


def water(openmm):
    system = particles(openmm, 0)
    force = openmm.NonbondedForce()
    force.setNonbondedMethod(force.LJPME)
    positions = []
    for at in lattice(27):
        first = system.getNumParticles()
        for mass, charge, size, depth in ((16, 0, 0.31, 0.6), (1, 0.4, 0.1, 0.01), (1, 0.4, 0.1, 0.01), (0, -0.8, 0.1, 0)):
            system.addParticle(mass)
            force.addParticle(charge, size, depth)
        for a, b, length in ((0, 1, 0.1), (0, 2, 0.1), (1, 2, 0.16)):
            system.addConstraint(first + a, first + b, length)
        system.setVirtualSite(first + 3, openmm.ThreeParticleAverageSite(first, first + 1, first + 2, 0.8, 0.1, 0.1))
        for a, b in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)):
            force.addException(first + a, first + b, 0, 1, 0)
        positions += [at, at + [0.1, 0, 0], at + [-0.028, 0.096, 0], at + [0.007, 0.0096, 0]]
    system.addForce(force)
    return system, np.array(positions)


# Of each test: the system and where its particles are.
TESTS = {
    "all pairs": charges("NoCutoff"),
    "near pairs": charges("CutoffPeriodic"),
    "mesh of charges": charges("PME"),
    "bonds": bonds,
    "formulas": formulas,
    "born radii": born,
    "water": water,
}


def run(openmm, platform, system, positions):
    integrator = openmm.VerletIntegrator(0.0005)
    properties = {"Precision": "mixed"} if platform == "HIP" else {}
    context = openmm.Context(system, integrator, openmm.Platform.getPlatformByName(platform), properties)
    context.setPositions(positions)
    context.applyConstraints(1e-6)
    state = context.getState(getEnergy=True, getForces=True)
    integrator.step(5)
    moved = context.getState(getPositions=True).getPositions(asNumpy=True)._value
    return np.array([state.getPotentialEnergy()._value]), state.getForces(asNumpy=True)._value, moved


def main():
    if len(sys.argv) == 1:
        print("\n".join(TESTS))
        return
    import openmm

    name = sys.argv[1]
    system, positions = TESTS[name](openmm)
    expected, found = (run(openmm, platform, system, positions) for platform in ("Reference", "HIP"))
    for what, near, expected, found in zip(("energy", "forces", "positions"), (1e-4, 1e-3, 1e-4), expected, found):
        worst, most = np.abs(found - expected).max(), np.abs(expected).max()
        if worst <= near * most:
            print(f"passed {name}: {what}")
        else:
            print(f"failed {name}: {what} of {most} differ from the reference by {worst}")


main()
