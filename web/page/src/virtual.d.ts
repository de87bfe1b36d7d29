declare module "virtual:steelyard" {
  const data: import("./known").Known;
  export default data;
}
declare module "*.css" {}
