declare const UPlot: any;
export default UPlot;
