package conformance_test

var kickoffScenarios, checkpointScenarios, restoreScenarios []scenario
